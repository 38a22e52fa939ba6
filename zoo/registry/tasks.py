"""TASKS: every family of tasks rnnzoo can read, one row each. The table needs no torch."""

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
"""Family to `module.Class` within zoo.data; the class, a TaskData, is called with the registry's Task and Dataset."""
