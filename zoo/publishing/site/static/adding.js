/* The adding problem on a model's page: numbers, two of them marked, whose sum is wanted. */
"use strict";
zoo.inputs.adding = ({ control, style, go }) => {
  const pad = document.getElementById("pad"), pen = pad.getContext("2d");
  let numbers = null, marks = null, sum = null;
  const draw = (steps) => {
    numbers = Array.from({ length: steps }, () => Math.random());
    const one = Math.floor(Math.random() * steps);
    marks = [one, (one + 1 + Math.floor(Math.random() * (steps - 1))) % steps].sort((a, b) => a - b);
  };
  const show = (t) => {
    pen.clearRect(0, 0, 560, 160);
    const width = 560 / numbers.length;
    numbers.forEach((v, i) => {
      const marked = marks.includes(i);
      pen.fillStyle = marked ? "#d5652a" : i <= t ? style("--accent") : style("--line");
      pen.fillRect(i * width, 150 - 130 * v, Math.max(width - 0.6, marked ? 3 : 1), 130 * v);
      if (marked) pen.fillRect(i * width - 1, 4, 5, 8);
    });
  };
  control("sample").addEventListener("click", () => { numbers = null; go(); });
  return {
    read: (model) => {
      if (!numbers || numbers.length !== model.steps) draw(model.steps);
      sum = numbers[marks[0]] + numbers[marks[1]];
      return numbers.map((v, i) => [v, marks.includes(i) ? 1 : 0]);
    },
    show: (t) => show(t),
    sum: () => sum,
  };
};
