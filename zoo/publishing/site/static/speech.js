/* Speech on a model's page: log-mel frames as zoo.data.speech makes them, the microphone, files and recordings. */
"use strict";
zoo.sound = { rate: 8000, window: 200, hop: 80, bands: 32, fft: 256, floor: 1e-6, lowest: 60, quiet: -53, pause: 20, most: 4 };

/* Filters of the mel scale, a row of 129 weights for each band. */
zoo.mel = () => {
  const { rate, bands, fft, lowest } = zoo.sound, mel = (hertz) => 2595 * Math.log10(1 + hertz / 700);
  const [low, high] = [mel(lowest), mel(rate / 2)];
  const centres = Array.from({ length: bands + 2 }, (_, i) => 700 * (10 ** ((low + ((high - low) * i) / (bands + 1)) / 2595) - 1));
  return Array.from({ length: bands }, (_, band) => Array.from({ length: fft / 2 + 1 }, (_, bin) => {
    const f = (bin * rate) / fft, [a, b, c] = centres.slice(band, band + 3);
    return Math.fround(Math.max(0, Math.min((f - a) / (b - a), (c - f) / (c - b))));
  }));
};

/* Frames, 32 numbers each, of samples at 8 kHz with full scale 1; silence fills up a recording shorter than a frame. */
zoo.logMel = (samples) => {
  const { window, hop, fft, floor } = zoo.sound, count = Math.max(1, Math.floor((samples.length - window) / hop) + 1);
  const filters = (zoo.filters = zoo.filters || zoo.mel()), turn = (2 * Math.PI) / fft;
  const cosine = Float64Array.from({ length: fft }, (_, i) => Math.cos(turn * i)), hann = Float64Array.from({ length: window }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / window));
  return Array.from({ length: count }, (_, frame) => {
    const energies = new Float64Array(fft / 2 + 1), part = hann.map((weight, i) => weight * (samples[frame * hop + i] || 0));
    for (let bin = 0; bin < energies.length; bin++) {
      let real = 0, imaginary = 0;
      for (let i = 0; i < window; i++) {
        const place = (bin * i) % fft;
        real += part[i] * cosine[place];
        imaginary += part[i] * cosine[(place + (3 * fft) / 4) % fft];
      }
      energies[bin] = real * real + imaginary * imaginary;
    }
    return filters.map((filter) => Math.log(filter.reduce((sum, weight, bin) => sum + weight * energies[bin], 0) + floor));
  });
};

/* Samples at another rate: a sinc of 16 zero crossings, cut off below half of the lower rate. */
zoo.resample = (samples, from, to) => {
  if (from === to) return samples;
  const cut = 0.95 * Math.min(1, to / from), reach = 16 / cut;
  return Float32Array.from({ length: Math.floor((samples.length * to) / from) }, (_, n) => {
    const centre = (n * from) / to;
    let sum = 0;
    for (let i = Math.max(0, Math.ceil(centre - reach)); i <= Math.min(samples.length - 1, centre + reach); i++) {
      const d = i - centre, x = Math.PI * cut * d;
      sum += samples[i] * cut * (d ? Math.sin(x) / x : 1) * (0.5 + 0.5 * Math.cos((Math.PI * d) / reach));
    }
    return sum;
  });
};

/* The first word in frames, as zoo.listen cuts it: from the first frame that is not quiet to the last before a pause. */
zoo.word = (frames) => {
  const { fft, window, quiet, pause } = zoo.sound, full = (fft / 2) * window * (3 / 8) / 2;
  const loud = frames.map((frame) => (10 / Math.LN10) * Math.log(frame.reduce((sum, v) => sum + Math.exp(v), 0) / full) >= quiet);
  const first = loud.indexOf(true);
  let last = first;
  for (let i = first; first >= 0 && i < loud.length && i - last < pause; i++) if (loud[i]) last = i;
  return { first, last, ended: first >= 0 && loud.length - last > pause };
};

zoo.inputs.speech = ({ control, style, stop, go, say }) => {
  const pad = document.getElementById("pad"), pen = pad.getContext("2d"), { rate, hop, window, bands, most } = zoo.sound;
  let samples = null, frames = null, recorder = null, player = null, asking = false;
  const words = control("record").textContent;
  const draw = (t) => {
    Object.assign(pad, { width: pad.clientWidth, height: pad.clientHeight }); // this clears it, too
    const low = Math.log(zoo.sound.floor), high = Math.max(low + 1, ...frames.map((frame) => Math.max(...frame))), width = pad.width / frames.length, height = pad.height / bands;
    pen.fillStyle = style("--warm");
    frames.forEach((frame, x) => frame.forEach((v, band) => {
      const left = Math.round(x * width), top = Math.round(pad.height - (band + 1) * height);
      pen.globalAlpha = ((v - low) / (high - low)) ** 2 * (x <= t ? 1 : 0.35);
      pen.fillRect(left, top, Math.round((x + 1) * width) - left, Math.round(pad.height - band * height) - top);
    }));
    pen.globalAlpha = 1;
    pen.fillStyle = style("--ink");
    if (t < frames.length) pen.fillRect((t + 1) * width - 1, 0, 2, pad.height);
  };
  /* part: whether to read only the first word of the samples. */
  const take = (sound, part) => {
    const all = zoo.logMel(sound), { first, last } = part ? zoo.word(all) : { first: 0, last: all.length - 1 };
    if (first < 0) { say("There is nothing but silence. Try again, and speak louder."); return; }
    frames = all.slice(first, last + 1);
    samples = sound.slice(first * hop, last * hop + window);
    draw(Infinity);
    go();
  };
  const context = () => (player = player || new AudioContext());
  const hear = () => {
    if (!samples) { say("There is nothing to play yet."); return; }
    const source = context().createBufferSource(), buffer = player.createBuffer(1, samples.length, rate);
    buffer.copyToChannel(Float32Array.from(samples), 0);
    source.buffer = buffer;
    source.connect(player.destination);
    player.resume();
    source.start();
  };
  const record = async () => {
    if (recorder) { recorder(true); return; }
    if (asking) return;
    asking = true;
    stop();
    let stream, audio;
    try {
      if (!navigator.mediaDevices) throw new Error("the browser does not give this page a microphone");
      stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
      audio = new AudioContext();
      const code = "registerProcessor('tap', class extends AudioWorkletProcessor { process([input]) { if (input[0]) this.port.postMessage(input[0].slice()); return true; } });";
      await audio.audioWorklet.addModule(`data:text/javascript,${encodeURIComponent(code)}`);
    } catch (error) {
      stream?.getTracks().forEach((track) => track.stop());
      audio?.close();
      say(`No recording: ${error.message}.`);
      return;
    } finally { asking = false; }
    const tap = new AudioWorkletNode(audio, "tap", { channelCount: 1, channelCountMode: "explicit" }), heard = [];
    let count = 0, checked = 0;
    const sound = () => {
      const joined = new Float32Array(count);
      heard.reduce((place, each) => { joined.set(each, place); return place + each.length; }, 0);
      return zoo.resample(joined, audio.sampleRate, rate);
    };
    recorder = (read) => {
      recorder = null;
      const spoken = sound();
      stream.getTracks().forEach((track) => track.stop());
      audio.close();
      control("record").textContent = words;
      if (read && count) take(spoken, true);
    };
    tap.port.onmessage = ({ data }) => {
      if (!recorder) return;
      heard.push(data);
      count += data.length;
      const seconds = count / audio.sampleRate;
      if (seconds > most) recorder(true);
      else if (seconds - checked > 0.25) { checked = seconds; if (zoo.word(zoo.logMel(sound())).ended) recorder(true); }
    };
    audio.createMediaStreamSource(stream).connect(tap);
    control("record").textContent = "Stop";
    say("Speak a digit, from zero to nine.");
  };
  control("record").addEventListener("click", record);
  control("hear").addEventListener("click", hear);
  control("file").addEventListener("change", async ({ target }) => {
    if (!target.files.length) return;
    recorder?.(false);
    stop();
    try {
      const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await target.files[0].arrayBuffer());
      const channels = Array.from({ length: decoded.numberOfChannels }, (_, i) => decoded.getChannelData(i));
      take(channels[0].map((_, i) => channels.reduce((sum, each) => sum + each[i], 0) / channels.length).slice(0, 30 * rate), true);
    } catch { say(`${target.files[0].name} is not a sound that this browser can read.`); }
  });
  document.querySelectorAll("[data-recording]").forEach((button) => button.addEventListener("click", () => {
    recorder?.(false);
    stop();
    const bytes = Uint8Array.from(atob(zoo.recordings[button.dataset.recording]), (c) => c.charCodeAt(0));
    take(Float32Array.from(new Int16Array(bytes.buffer), (v) => v / 32768), false);
    hear();
  }));
  return {
    read: () => {
      if (!frames) throw new Error("Speak a digit, or choose a recording or a file.");
      return frames;
    },
    show: (t, model, trace) => draw(t === trace.steps - 1 ? Infinity : t),
  };
};
