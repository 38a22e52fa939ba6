/* Writing on a model's page: a network continues a text, character by character. */
"use strict";
zoo.inputs.writing = () => ({
  read: (model) => {
    const rows = zoo.characters(model, document.getElementById("text").value || "\n");
    rows.length += Math.max(1, Math.min(5000, Math.round(Number(document.getElementById("length").value)) || 1));
    return rows;
  },
  draw: (logits) => zoo.draw(Number(document.getElementById("temperature").value))(logits),
  show: () => {},
});
