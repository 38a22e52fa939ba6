"""The gallery: a static site of the zoo, made from the registry, the recorded results, the stored analyses and docs/.

`builder.build` writes it. Pages need no server and no JavaScript, except what runs a model in the browser.
"""
