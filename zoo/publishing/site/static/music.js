/* Music on a model's page: a network draws frames of a piano roll, which grows as oscillators play it. */
"use strict";
const LOWEST_KEY = 21; // MIDI number of the first of the 88 keys

/* The frames of chords such as "C3 E4 G4 | - | F4", each key 0 or 1. */
zoo.chords = (text, names) => (text.trim() ? text.trim().split(/\s*[|\n]\s*/) : []).map((chord) => {
  const frame = new Array(names.length).fill(0);
  for (const name of (chord === "-" ? "" : chord).split(/\s+/).filter(Boolean)) {
    if (!names.includes(name)) throw new Error(`No key is called “${name}”. Keys are called ${names[0]}, ${names[1]} … ${names[names.length - 1]}.`);
    frame[names.indexOf(name)] = 1;
  }
  return frame;
});

/* A function that draws a frame from logits, each key by its own chance; at temperature 0 the keys that rather sound. */
zoo.drawKeys = (temperature) => (logits) => Array.from(logits, (v) => ((temperature > 0 ? Math.random() < 1 / (1 + Math.exp(-v / temperature)) : v > 0) ? 1 : 0));

zoo.inputs.music = ({ control, style }) => {
  const pad = document.getElementById("pad"), pen = pad.getContext("2d"), number = (id) => Number(document.getElementById(id).value);
  let roll = [], first = 0, audio = null, sounding = new Map();
  const silence = () => { for (const key of [...sounding.keys()]) release(key); };
  const release = (key) => {
    const { oscillator, gain } = sounding.get(key), now = audio.currentTime;
    sounding.delete(key);
    gain.gain.setTargetAtTime(0, now, 0.04);
    oscillator.stop(now + 0.4);
  };
  const press = (key) => {
    const oscillator = audio.createOscillator(), gain = audio.createGain(), now = audio.currentTime;
    oscillator.type = "triangle";
    oscillator.frequency.value = 440 * 2 ** ((LOWEST_KEY + key - 69) / 12);
    gain.gain.setValueAtTime(0, now);
    gain.gain.linearRampToValueAtTime(0.14, now + 0.015);
    gain.gain.setTargetAtTime(0.07, now + 0.02, 0.3);
    oscillator.connect(gain).connect(audio.destination);
    oscillator.start();
    sounding.set(key, { oscillator, gain });
  };
  const show = (t) => {
    Object.assign(pad, { width: pad.clientWidth, height: pad.clientHeight }); // this clears it, too
    const keys = roll.flatMap((frame) => frame.flatMap((on, key) => (on ? [key] : [])));
    const low = Math.max(0, Math.min(39, ...keys) - 2), high = Math.min(87, Math.max(63, ...keys) + 2), height = pad.height / (high - low + 1), width = pad.width / roll.length;
    const y = (key) => pad.height - (key - low + 1) * height;
    pen.font = "11px sans-serif";
    for (let key = low; key <= high; key++) {
      if ((LOWEST_KEY + key) % 12) continue;
      pen.fillStyle = style("--line");
      pen.fillRect(0, y(key) + height, pad.width, 1);
      pen.fillStyle = style("--soft");
      pen.fillText(`C${(LOWEST_KEY + key) / 12 - 1}`, 2, y(key) + height - 3);
    }
    for (let x = 0; x <= t; x++) roll[x].forEach((on, key) => {
      if (!on) return;
      pen.fillStyle = style(x === t ? "--warm" : x < first ? "--soft" : "--accent");
      pen.fillRect(x * width, y(key), x < t && roll[x + 1][key] ? width + 0.5 : Math.max(1, width - 1), height - 0.5);
    });
  };
  return {
    read: (model) => {
      const begin = zoo.chords(document.getElementById("chords").value, model.classes);
      first = begin.length;
      const rows = begin.length ? begin : [new Array(model.classes.length).fill(0)];
      rows.length += Math.max(1, Math.min(1000, Math.round(number("length")) || 1));
      return rows;
    },
    draw: (logits) => zoo.drawKeys(number("temperature"))(logits),
    rate: (speed) => 16 ** (speed / 100), // frames a second
    begin: () => { if (document.getElementById("sound").checked) { audio = audio || new AudioContext(); audio.resume(); } },
    show: (t, model, trace, playing, rows) => {
      roll = rows;
      show(t);
      if (!audio) return;
      const now = new Set(playing && document.getElementById("sound").checked ? roll[t].flatMap((on, key) => (on ? [key] : [])) : []);
      for (const key of [...sounding.keys()]) if (!now.has(key)) release(key);
      for (const key of now) if (!sounding.has(key)) press(key);
    },
    silence,
  };
};
document.addEventListener("visibilitychange", () => { if (document.hidden) zoo.widget?.stop(); });
