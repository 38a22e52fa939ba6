/* Runs models in the page: loads the script of a model, compiles its WebAssembly, and takes its steps. */
"use strict";
zoo.models = zoo.models || {};
zoo.inputs = {}; // by kind of model: a function that returns what a visitor gives the network to read
zoo.load = (data) => { zoo.models[data.name] = data; };

zoo.script = (address) => new Promise((resolve, reject) => {
  const script = document.createElement("script");
  script.src = address;
  script.onload = resolve;
  script.onerror = () => reject(new Error(`${address} cannot be loaded.`));
  document.head.append(script);
});

zoo.inflate = async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
};

/* One compiled step. A trace has the logits, all states and all gates after every step. */
zoo.Step = class {
  constructor(instance, states, gates) {
    const sum = (places) => places.reduce((most, place) => Math.max(most, place.offset + place.size), 0);
    this.exports = instance.exports;
    Object.assign(this, { states, gates, size: sum(states), gateSize: sum(gates) });
  }

  /* rows: the input of every step, a token or an array. Where it has a hole, `draw` makes a token of the logits before. */
  run(rows, tokens, draw) {
    const { memory, init, step, state, x, logits, inputs, outputs } = this.exports;
    const place = state(), input = new Float32Array(memory.buffer, x(), inputs()), numbers = outputs();
    const found = new Float32Array(memory.buffer, logits(), numbers), now = new Float32Array(memory.buffer, place, this.size);
    const open = new Float32Array(memory.buffer, this.gateSize ? this.exports.gates() : 0, this.gateSize), array = (size) => new Float32Array(rows.length * size);
    const trace = { steps: rows.length, outputs: numbers, logits: array(numbers), states: array(this.size), size: this.size, gates: array(this.gateSize), gateSize: this.gateSize };
    init(place);
    const begin = performance.now();
    for (let t = 0; t < rows.length; t++) {
      if (rows[t] === undefined) rows[t] = draw(found);
      if (tokens) step(place, rows[t], logits());
      else { input.set(rows[t]); step(place, x(), logits()); }
      trace.logits.set(found, t * numbers);
      trace.states.set(now, t * this.size);
      trace.gates.set(open, t * this.gateSize);
    }
    trace.milliseconds = performance.now() - begin;
    return trace;
  }
};

/* A model: what its script says, and its steps by part. */
zoo.Model = class {
  constructor(data, steps) { Object.assign(this, data); this.parts = steps; this.top = steps[steps.decoder ? "decoder" : ""]; }

  /* rows: an array of inputs for each step, tokens, or for a story {story, question}, both tokens. draw: see Step. */
  run(rows, draw) {
    if (this.kind !== "story") return this.parts[""].run(rows, this.words.length > 0, draw);
    const tops = ["story", "question"].map((part) => {
      const step = this.parts[part], trace = step.run(rows[part], true);
      const deepest = Math.max(...step.states.map((state) => state.layer));
      const { offset, size } = step.states.find((state) => state.layer === deepest);
      return rows[part].map((_, t) => trace.states.slice(t * trace.size + offset, t * trace.size + offset + size));
    });
    return this.parts.decoder.run(tops.flat(), false);
  }

  /* The names of states, or of gates, and for each its place in every layer from the bottom. */
  get kinds() { return this.named("states"); }
  get gates() { return this.named("gates"); }
  named(places) {
    const kinds = new Map();
    for (const place of this.top[places]) kinds.set(place.name, [...(kinds.get(place.name) || []), place]);
    return kinds;
  }

  /* The probability of each class: all together 1, or each key of a piano by itself. */
  shares(logits) { return this.kind === "music" ? Array.from(logits, (v) => 1 / (1 + Math.exp(-v))) : zoo.softmax(logits); }
};

zoo.model = async (name, root) => {
  if (!zoo.models[name]) await zoo.script(`${root}live/${name}.js`);
  const data = zoo.models[name];
  if (!data.compiled) {
    data.compiled = (async () => {
      const steps = {};
      for (const { part, states, gates, code } of data.wasm) {
        const { instance } = await WebAssembly.instantiate(await zoo.inflate(code));
        steps[part] = new zoo.Step(instance, states, gates);
      }
      return new zoo.Model(data, steps);
    })();
  }
  return data.compiled;
};

/* The rows of an image of 784 numbers from 0 to 1, in the order in which a model reads them. */
zoo.rows = (layout, pixels) => {
  if (layout === "rows") return Array.from({ length: 28 }, (_, t) => pixels.slice(28 * t, 28 * t + 28));
  return zoo.order(layout).map((place) => [pixels[place]]);
};
zoo.order = (layout) => (layout === "permuted-pixels" ? zoo.permutation : Array.from({ length: 784 }, (_, t) => t));

/* The words of a text as the tokenizer splits it: runs of letters in lower case, without apostrophes. */
zoo.split = (text) => text.toLowerCase().replace(/['’]/g, "").match(/[\p{L}\p{Nl}\p{No}]+/gu) || [];
zoo.tokens = (model, words) => {
  model.known = model.known || new Map(model.words.map((word, token) => [word, token]));
  const found = words.map((word) => model.known.get(word) ?? 1);
  return found.length ? found : [1];
};

/* The characters of a text as tokens. */
zoo.characters = (model, text) => Array.from(text, (character) => {
  const token = model.words.indexOf(character);
  if (token < 2) throw new Error(`The character “${character}” is not in the vocabulary.`);
  return token;
});

/* A function that draws a token from logits, the likeliest at temperature 0; never one of the two reserved tokens. */
zoo.draw = (temperature) => (logits) => {
  const scores = Array.from(logits).slice(2);
  if (!(temperature > 0)) return 2 + scores.indexOf(Math.max(...scores));
  let rest = Math.random();
  const token = zoo.softmax(scores.map((v) => v / temperature)).findIndex((share) => (rest -= share) < 0);
  return token < 0 ? scores.length + 1 : 2 + token;
};

zoo.softmax = (logits) => {
  const most = Math.max(...logits), weights = Array.from(logits, (v) => Math.exp(v - most)), total = weights.reduce((a, b) => a + b);
  return weights.map((v) => v / total);
};
