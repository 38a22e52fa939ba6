// Runs WebAssembly modules of rnnzoo for a program: requests on standard input, answers on standard output.
// A request is five int32 (steps, every, numbers of the state, of x and of dt), the state, x and dt, which may be empty; the
// answer is state and logits.
// If steps is negative, the request is -steps bytes: a module for the requests to come. The answer is its number of logits.
import fs from "node:fs";

let exports = null;

function read(bytes) {
  const buffer = Buffer.alloc(bytes);
  for (let done = 0; done < bytes; ) {
    const count = fs.readSync(0, buffer, done, bytes - done, null);
    if (count === 0) process.exit(0);
    done += count;
  }
  return buffer;
}

function write(buffer) {
  for (let done = 0; done < buffer.length; ) done += fs.writeSync(1, buffer, done);
}

for (;;) {
  const [steps, every, states, inputs, gaps] = new Int32Array(new Uint8Array(read(20)).buffer);
  if (steps < 0) {
    exports = new WebAssembly.Instance(new WebAssembly.Module(read(-steps))).exports;
    write(Buffer.from(Int32Array.of(exports.outputs()).buffer));
    continue;
  }
  const { memory, run, outputs, __heap_base } = exports;
  const logits = 4 * outputs() * (every ? steps : 1);
  const start = (__heap_base.value + 15) & ~15;
  const x = start + 4 * states;
  const dt = x + 4 * inputs;
  const end = dt + 4 * gaps + logits;
  if (end > memory.buffer.byteLength) memory.grow(Math.ceil((end - memory.buffer.byteLength) / 65536));
  const bytes = new Uint8Array(memory.buffer);
  bytes.set(read(4 * (states + inputs + gaps)), start);
  run(start, gaps ? dt : 0, x, end - logits, steps, every);
  write(Buffer.concat([bytes.slice(start, start + 4 * states), bytes.slice(end - logits, end)]));
}
