/* A text on a model's page: each word in the colour of the class that leads after it. */
"use strict";
zoo.inputs.text = ({ find, COLOURS }) => {
  const words = find(".words");
  let split = [];
  return {
    read: (model) => {
      split = zoo.split(document.getElementById("text").value).slice(0, model.steps);
      if (!split.length) throw new Error("Write a text first.");
      return zoo.tokens(model, split);
    },
    show: (t, model, trace) => {
      words.replaceChildren(...split.map((word, i) => {
        const span = document.createElement("span");
        span.textContent = word;
        if (model.known && !model.known.has(word)) { span.className = "unknown"; span.title = "not in the vocabulary"; }
        if (i <= t) {
          const scores = trace.logits.subarray(i * trace.outputs, (i + 1) * trace.outputs);
          span.style.setProperty("--c", COLOURS[scores.indexOf(Math.max(...scores)) % 10]);
        }
        if (i === t) span.classList.add("here");
        return span;
      }));
    },
  };
};
