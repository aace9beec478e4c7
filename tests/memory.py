"""The memory that a call needs, whatever else the process does meanwhile."""

import gc
import tracemalloc


def peak_memory(call, enough=0, tries=3):
    """The most bytes that Python and NumPy held at once for `call()`, beyond those held before it.

    tracemalloc counts the whole process: threads that an earlier test left behind and caches that fill on a first call
    add to it, never take away. The least of several tries is the call's own; one below `enough` bytes is the last.
    """
    peaks = []
    for number in range(tries):
        if number:
            gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            call()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
        if peaks[-1] < enough:
            break
    return min(peaks)
