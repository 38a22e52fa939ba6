"""TASKS: every family of tasks that rnnzoo can read, one row each. Nothing here imports torch."""

TASKS: dict[str, str] = {
    "absent": "absent.Absent",
    "adding": "adding.Adding",
    "babi": "babi.Babi",
    "circles": "tables.Circles",
    "jester": "video.Jester",
    "jigsaw": "text.Jigsaw",
    "mnist": "mnist.MNIST",
    "nmnist": "video.NMNIST",
    "pima": "tables.Pima",
    "sits": "sits.Sits",
    "spooky": "text.Spooky",
}
"""Family to `module.Class` within zoo.data. The class is a TaskData, made from the registry's Task and Dataset."""
