/* Forecasts on a model's page: a chaotic series is computed here, and the network says after every step how it goes on. */
"use strict";
const SHOWN = 400; // steps that a network reads
const SPEEDS = { "mackey-glass": 3, lorenz: 1 }; // Mackey-Glass turns about a third as fast, so it is shown faster

/* A function that takes a step of length h of the Runge-Kutta method of order 4 in the system dv/dt = flow(v). */
zoo.rungeKutta = (flow, h) => (v) => {
  const along = (slope, part) => v.map((x, i) => x + part * slope[i]);
  const a = flow(v), b = flow(along(a, h / 2)), c = flow(along(b, h / 2)), d = flow(along(c, h));
  return v.map((x, i) => x + (h / 6) * (a[i] + 2 * b[i] + 2 * c[i] + d[i]));
};

/* Series from a random beginning, as zoo/data/forecast.py computes them: `count` samples after the first thousand. */
zoo.series = {
  lorenz: (count, random = Math.random) => {
    const step = zoo.rungeKutta(([x, y, z]) => [10 * (y - x), x * (28 - z) - y, x * y - (8 * z) / 3], 0.01);
    let state = [0, 0, 25].map((middle) => middle + 20 * (random() - 0.5));
    const samples = Array.from({ length: 1000 + count }, () => (state = step(step(state)))[0]);
    return samples.slice(1000).map((x) => (x - 0.0774) / 7.911);
  },
  "mackey-glass": (count, random = Math.random) => {
    const growth = (v) => (0.2 * v) / (1 + v ** 10), past = new Array(171).fill(0.5 + random()), h = 0.1;
    const samples = Array.from({ length: 1000 + count }, () => {
      for (let i = 0; i < 10; i++) {
        const x = past[170], first = growth(past[0]), last = growth(past[1]), middle = growth((past[0] + past[1]) / 2);
        const k1 = first - 0.1 * x;
        const k2 = middle - 0.1 * (x + (h / 2) * k1);
        const k3 = middle - 0.1 * (x + (h / 2) * k2);
        const k4 = last - 0.1 * (x + h * k3);
        past.shift();
        past.push(x + (h / 6) * (k1 + 2 * k2 + 2 * k3 + k4));
      }
      return past[170];
    });
    return samples.slice(1000).map((x) => (x - 0.9302) / 0.2262);
  },
};

zoo.inputs.forecast = ({ control, style, go }) => {
  let truth = null, rate = 1;
  control("sample").addEventListener("click", () => { truth = null; go(); });
  const errors = ({ model, trace }, t) => model.horizons.map((horizon, i) => {
    const begin = model.steps - 1, due = [];
    for (let s = begin; s + horizon <= t; s++) due.push(trace.logits[s * trace.outputs + i] - truth[s + horizon]);
    return due.length ? Math.sqrt(due.reduce((sum, e) => sum + e * e, 0) / due.length) : null;
  });
  return {
    read: (model) => {
      truth = truth || zoo.series[model.layout](SHOWN + Math.max(...model.horizons));
      rate = SPEEDS[model.layout];
      return truth.slice(0, SHOWN).map((value) => [value]);
    },
    rate: (speed) => rate * 1.5 * 100 ** (speed / 100), // steps a second
    show: () => {},
    numbers: true, // the outputs are values, not classes
    part: (value) => (value + 3) / 6, // of a bar's length
    /* The error by horizon of the forecasts that have come due, of those made after as many steps as a window of the task has. */
    summary: (run, t) => {
      const due = errors(run, t).flatMap((e, i) => (e === null ? [] : [`${e.toFixed(3)} (${run.model.classes[i]})`]));
      return due.length ? `RMSE so far: ${due.join(", ")}` : `errors count once ${run.model.steps} steps are read`;
    },
    /* The series, what is still to come in a fainter line, and each forecast at the time that it is for. */
    plot: ({ model, trace }, t, pen, colours) => {
      const { width, height } = pen.canvas, low = Math.min(-2.6, ...truth), high = Math.max(2.6, ...truth);
      const x = (step) => (width * (step + 0.5)) / truth.length;
      const y = (v) => height - 5 - ((height - 10) * (v - low)) / (high - low);
      const line = (colour, thick, from, to, value, shift = 0) => {
        pen.strokeStyle = colour;
        pen.lineWidth = thick;
        pen.beginPath();
        for (let s = from; s <= to; s++) pen.lineTo(x(s + shift), y(value(s)));
        pen.stroke();
      };
      pen.fillStyle = style("--line");
      pen.fillRect(x(t), 0, 1, height);
      line(style("--line"), 2, t, truth.length - 1, (s) => truth[s]);
      line(style("--ink"), 2, 0, t, (s) => truth[s]);
      model.horizons.forEach((horizon, i) => {
        const value = (s) => trace.logits[s * trace.outputs + i];
        line(colours[i], 1.5, Math.min(t, 5), t, value, horizon); // the first steps know too little
        pen.fillStyle = colours[i];
        pen.beginPath();
        pen.ellipse(x(t + horizon), y(value(t)), (4 * width) / pen.canvas.clientWidth, (4 * height) / pen.canvas.clientHeight, 0, 0, 7);
        pen.fill();
      });
    },
  };
};
