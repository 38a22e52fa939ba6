/* A story on a model's page, and a question about it. */
"use strict";
zoo.inputs.story = ({ find }) => ({
  read: (model) => {
    const [story, question] = ["story", "question"].map((id) => zoo.split(document.getElementById(id).value));
    const strange = [...new Set([...story, ...question])].filter((word) => !model.words.includes(word));
    find(".vocabulary").textContent = `${strange.length ? `Not in the vocabulary: ${strange.join(", ")}. ` : ""}The vocabulary has ${model.words.length - 2} words: ${model.words.slice(2).join(", ")}.`;
    if (!story.length || !question.length) throw new Error("Write a story and a question.");
    if (question.length >= model.steps) throw new Error("The question is too long.");
    const kept = story.slice(-(model.steps - question.length));
    return { story: zoo.tokens(model, kept), question: zoo.tokens(model, question) };
  },
  show: () => {},
});
