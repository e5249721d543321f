"""The page. Importing this first makes `import gradio` twice as fast.

For each of its component classes Gradio renders an editor stub and compares it with a .pyi file beside the source, at every
import: half of the six seconds until a page is served on two slow cores. It skips a class that has no source file, so that
is what component classes claim here.
"""

import inspect

_getfile = inspect.getfile


def _without_stubs(thing):
    if type(thing).__name__ == "ComponentMeta":
        raise OSError(f"{thing.__name__} needs no editor stub")
    return _getfile(thing)


inspect.getfile = _without_stubs
