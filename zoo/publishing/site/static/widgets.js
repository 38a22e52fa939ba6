/* The section "Try it" of a model's page: the run as a film, and two networks side by side. zoo.inputs has the input by hand. */
"use strict";
(() => {
  const section = document.getElementById("try");
  if (!section) return;
  const { root, kind, model: first } = section.dataset;
  const find = (what) => section.querySelector(what), control = (name) => find(`[data-do="${name}"]`);
  const COLOURS = ["#3b6fb6", "#d5652a", "#3f9b57", "#b93f6b", "#8460b8", "#8a6a2f", "#2a9d9d", "#c29a10", "#6b7280", "#d04848"];
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const VISIBLE = { "\n": "↵", " ": "␣" }, verb = control("run").textContent;
  const ANSWERS = { writing: "Probabilities of the most likely characters", music: "Probabilities of the most likely keys", forecast: "The series (future values fainter) and each forecast at its target time" };
  const LAST = { writing: "Next", music: "Next", forecast: "At the end" };
  const runs = []; // {model, rows, trace, view: elements}
  let position = 0, playing = null;

  /* ---- a network's part of the picture ---- */
  function panel(model) {
    const box = document.createElement("div");
    box.className = "run";
    box.innerHTML = `<h3></h3><p class="caption states-caption"></p><canvas class="states" role="img"></canvas><p class="caption gates-caption"></p><canvas class="states gates" role="img"></canvas><p class="caption">${ANSWERS[kind] || "Prediction so far"}</p><canvas class="race" width="560" height="160" role="img"></canvas><ol class="scores"></ol>`;
    box.querySelector("h3").textContent = model.name;
    const written = document.createElement("p");
    written.className = "written";
    if (kind === "writing") box.querySelector("h3").after(written);
    find(".runs").append(box);
    const scores = box.querySelector(".scores");
    const name = (i) => {
      if (kind === "writing") return VISIBLE[model.words[i]] ?? model.words[i];
      const known = kind === "story" ? model.words : model.classes;
      return known[i] ?? (model.outputs > 1 ? String(i) : "output");
    };
    const names = Array.from({ length: model.outputs }, (_, i) => name(i));
    const shown = names.length > 12 ? 8 : names.length;
    for (let i = 0; i < shown; i++) {
      const item = scores.appendChild(document.createElement("li"));
      item.innerHTML = `<span class="label"></span><span class="track"><span class="fill"></span></span><span class="value"></span>`;
    }
    return { box, written, names, shown, scores, states: box.querySelector(".states"), gates: box.querySelector(".gates"), race: box.querySelector(".race"), caption: box.querySelector(".states-caption"), gatesCaption: box.querySelector(".gates-caption") };
  }
  const forget = () => runs.forEach((run) => { run.trace = null; run.view.box.hidden = true; });

  function paint(run, t) {
    const { model, trace, view } = run, { outputs } = trace;
    const logits = trace.logits.subarray(t * outputs, (t + 1) * outputs), value = outputs === 1 || input.numbers;
    const shares = value ? [...logits] : model.shares(logits), part = input.part ?? ((v) => (value ? v / 2 : v));
    const ranked = shares.map((_, i) => i).sort((a, b) => shares[b] - shares[a]);
    const order = view.shown < outputs ? ranked.slice(0, view.shown) : shares.map((_, i) => i);
    [...view.scores.children].forEach((item, place) => {
      const i = order[place], [name, track, number] = item.children;
      name.textContent = view.names[i];
      name.classList.toggle("top", i === ranked[0] && !input.numbers);
      track.firstChild.style.cssText = `--c:${COLOURS[i % 10]};transform:scaleX(${Math.max(0, Math.min(1, part(shares[i])))})`;
      number.textContent = value ? shares[i].toFixed(3) : `${(100 * shares[i]).toFixed(1)} %`;
    });
    if (kind === "writing") view.written.textContent = run.rows.slice(0, t + 1).map((token) => model.words[token]).join("");
    states(run, t);
    gates(run, t);
    race(run, t);
    if (input.summary) return input.summary(run, t);
    return value ? shares[0].toFixed(3) : `${view.names[ranked[0]]} (${(100 * shares[ranked[0]]).toFixed(0)} %)`;
  }

  /* Colours a number from -1 to 1 for each unit: units side by side, layers from the bottom; of one or two layers, units over time. */
  function map(canvas, rows, steps, t, value) {
    const layers = rows.length, over = layers <= 2, units = Math.max(...rows.map((row) => row.size)), pen = canvas.getContext("2d");
    const [width, height] = over ? [steps, layers * units] : [units, layers];
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const image = pen.createImageData(width, height), [mid, cold, warm] = ["--mid", "--cold", "--warm"].map((name) => rgb(style(name)));
    const put = (x, y, v) => {
      const size = Math.min(1, Math.abs(v)), colour = v < 0 ? cold : warm, place = 4 * (y * width + x);
      for (let i = 0; i < 3; i++) image.data[place + i] = mid[i] + (colour[i] - mid[i]) * size;
      image.data[place + 3] = 255;
    };
    rows.forEach((row, layer) => {
      for (let u = 0; u < row.size; u++) {
        if (!over) put(u, layers - 1 - layer, value(row, u, t));
        else for (let s = 0; s <= t; s++) put(s, (layers - 1 - layer) * units + u, value(row, u, s));
      }
    });
    pen.putImageData(image, 0, 0);
    return over ? `${layers > 1 ? "2 layers of " : ""}${units} unit${units > 1 ? "s" : ""}, over time` : `${layers} layers from the bottom, ${units} units`;
  }

  function states(run, t) {
    const { model, trace, view } = run, wanted = control("view").value, change = wanted === "change";
    const kinds = model.kinds, rows = kinds.get(wanted) || kinds.values().next().value;
    const at = (state, u, step) => {
      const now = trace.states[step * trace.size + state.offset + u];
      return change ? now - (step ? trace.states[(step - 1) * trace.size + state.offset + u] : 0) : now;
    };
    if (run.scaled !== wanted) {
      let most = 0;
      for (const state of rows) for (let s = 0; s < trace.steps; s += Math.ceil(trace.steps / 60)) for (let u = 0; u < state.size; u++) most = Math.max(most, Math.abs(at(state, u, s)));
      run.most = most || 1;
      run.scaled = wanted;
    }
    const signed = (v) => Math.sign(v) * Math.sqrt(Math.abs(v) / run.most);
    const where = map(view.states, rows, trace.steps, t, (state, u, step) => signed(at(state, u, step)));
    view.caption.textContent = `${change ? "How much the state changes in this step" : `State ${rows[0].name}`}: ${where}; red positive, blue negative`;
    view.states.setAttribute("aria-label", view.caption.textContent);
  }

  function gates(run, t) {
    const { model, trace, view } = run, kinds = model.gates, rows = kinds.get(control("gate").value) || kinds.values().next().value;
    view.gates.hidden = view.gatesCaption.hidden = !rows;
    if (!rows) return;
    const where = map(view.gates, rows, trace.steps, t, (gate, u, step) => 2 * trace.gates[step * trace.gateSize + gate.offset + u] - 1);
    view.gatesCaption.textContent = `Gate ${rows[0].name}: ${where}; red open (1), blue closed (0)`;
    view.gates.setAttribute("aria-label", view.gatesCaption.textContent);
  }

  function race(run, t) {
    const { trace, view } = run, pen = view.race.getContext("2d"), { outputs, steps } = trace, value = outputs === 1;
    pen.clearRect(0, 0, 560, 160);
    pen.fillStyle = style("--faint");
    pen.fillRect(0, 0, 560, 160);
    if (input.plot) { input.plot(run, t, pen, COLOURS); view.race.setAttribute("aria-label", `${ANSWERS[kind]}, ${steps} steps`); return; }
    const x = (step) => (560 * (step + 0.5)) / steps, low = value ? -0.2 : 0, high = value ? 2.2 : 1, y = (v) => 154 - (148 * (v - low)) / (high - low);
    run.shares = run.shares || Array.from({ length: steps }, (_, s) => { const part = trace.logits.subarray(s * outputs, (s + 1) * outputs); return value ? part : run.model.shares(part); });
    const sum = input.sum?.();
    if (sum !== undefined) { pen.strokeStyle = style("--ink"); pen.setLineDash([6, 5]); pen.lineWidth = 1.5; pen.beginPath(); pen.moveTo(0, y(sum)); pen.lineTo(560, y(sum)); pen.stroke(); pen.setLineDash([]); }
    const leaders = outputs > 12 ? Array.from(run.shares[t]).map((_, i) => i).sort((a, b) => run.shares[t][b] - run.shares[t][a]).slice(0, 8) : Array.from({ length: outputs }, (_, i) => i);
    for (const i of leaders) {
      pen.strokeStyle = COLOURS[i % 10];
      pen.lineWidth = 2.5;
      pen.beginPath();
      for (let s = 0; s <= t; s++) { if (s) pen.lineTo(x(s), y(run.shares[s][i])); else pen.moveTo(x(s), y(run.shares[s][i])); }
      if (t === 0) pen.lineTo(x(0) + 3, y(run.shares[0][i]));
      pen.stroke();
    }
    view.race.setAttribute("aria-label", `${value ? "The output" : "Probability of each class"} over ${steps} steps`);
  }

  /* ---- the film ---- */
  const say = (text, aloud = true) => {
    const now = find(".now");
    now.setAttribute("aria-live", aloud ? "polite" : "off"); // a screen reader would read every frame of a film
    now.textContent = text;
  };
  const slider = control("step");
  function show(step) {
    position = step;
    slider.value = step;
    const lead = runs[0], words = [];
    for (const run of runs) {
      if (!run.trace) continue;
      const t = Math.min(run.trace.steps - 1, Math.round(((step + 1) * run.trace.steps) / lead.trace.steps) - 1);
      words.push(`${runs.length > 1 ? run.model.name + ": " : ""}${paint(run, Math.max(0, t))}`);
    }
    input.show(step, lead.model, lead.trace, playing !== null, lead.rows);
    const done = step === lead.trace.steps - 1, truth = input.sum ? ` The sum is ${input.sum().toFixed(3)}.` : "";
    const time = done ? ` ${lead.trace.steps} step${lead.trace.steps === 1 ? "" : "s"} took ${lead.trace.milliseconds.toFixed(0)} ms.` : "";
    say(`${done ? LAST[kind] || "Answer" : `After step ${step + 1} of ${lead.trace.steps}`}: ${words.join("; ")}.${done ? truth + time : ""}`, done || playing === null);
  }
  const invitation = find(".now").textContent;
  let loading = false;
  let turn = 0; // of go: while one loads networks, another may begin, or the user may stop it
  function stop() { if (loading) { loading = false; say(invitation); } turn += 1; input.silence?.(); if (playing) cancelAnimationFrame(playing); playing = null; control("run").textContent = verb; }
  function play() {
    const steps = runs[0].trace.steps;
    let exact = 0, before = null;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches && !input.begin) { show(steps - 1); return; }
    control("run").textContent = "Stop";
    const frame = (now) => {
      const speed = Number(control("speed").value), rate = input.rate ? input.rate(speed) : (steps / 784) * 20 * 200 ** (speed / 100);
      exact += before === null ? 0 : (rate * Math.min(100, now - before)) / 1000;
      before = now;
      show(Math.min(steps - 1, Math.floor(exact)));
      if (position < steps - 1) playing = requestAnimationFrame(frame); else stop();
    };
    playing = requestAnimationFrame(frame);
  }

  async function go(film = true) {
    stop();
    const mine = turn;
    input.begin?.();
    try {
      const peer = control("peer"), wanted = [first, ...(peer && peer.value ? [peer.value] : [])];
      say("Loading the network …");
      loading = true;
      const models = await Promise.all(wanted.map((name) => zoo.model(name, root)));
      if (mine !== turn) return;
      loading = false;
      models.forEach((model, i) => {
        if (!runs[i] || runs[i].model !== model) { if (runs[i]) runs[i].view.box.remove(); runs[i] = { model, view: panel(model) }; }
      });
      while (runs.length > models.length) runs.pop().view.box.remove();
      for (const run of runs) {
        run.rows = input.read(run.model);
        Object.assign(run, { trace: run.model.run(run.rows, input.draw), shares: null, scaled: null });
        run.view.box.hidden = false;
      }
      const view = control("view"), names = [...models[0].kinds.keys(), "change"];
      if ([...view.options].map((o) => o.value).join() !== names.join()) view.replaceChildren(...names.map((name) => new Option(name === "change" ? "change in a step" : name, name)));
      const open = [...models[0].gates.keys()], gate = control("gate");
      gate.parentElement.hidden = !open.length;
      if ([...gate.options].map((o) => o.value).join() !== open.join()) gate.replaceChildren(...open.map((name) => new Option(name, name)));
      slider.max = runs[0].trace.steps - 1;
      if (film) play(); else show(runs[0].trace.steps - 1);
    } catch (error) {
      if (mine !== turn) return;
      loading = false;
      say(error.message);
    }
  }

  const input = zoo.inputs[kind]({ find, control, style, COLOURS, stop, go, say, forget });
  control("run").addEventListener("click", () => { if (playing) stop(); else go(); });
  control("peer")?.addEventListener("change", () => { if (runs.length) go(); });
  for (const each of ["view", "gate"]) control(each).addEventListener("change", () => { if (runs[0]?.trace) show(position); });
  slider.addEventListener("input", () => { stop(); if (runs[0]?.trace) show(Number(slider.value)); });
  zoo.widget = { input, go, stop, runs };
})();
