"""Pictures on pages that come from the gallery or from code on a page: ``python docs/pictures.py coupling`` draws one.

Without names it draws all of them. A picture whose smallest words would be hard to read on a page is an error.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

from outputs import blocks, empty_directory

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "images"

#: Where each picture comes from, and which of the figures drawn there it is. The code of a page is run up to the block
#: that draws it.
PICTURES = {
    "coverage": ("docs/guide/prediction-intervals.md", 2),
    "classification": ("examples/batch/plot_classification.py", 1),
    "coupling": ("examples/batch/plot_coupling.py", 1),
    "curves": ("docs/howto/curves.md", 1),
    "drift-signs": ("docs/howto/drift.md", 2),
    "economy": ("examples/batch/plot_economy.py", 1),
    "forgetting": ("examples/streams/plot_forgetting.py", 1),
    "intervals-under-drift": ("examples/streams/plot_intervals_under_drift.py", 1),
    "kernel-weights": ("examples/fields/plot_kernel_weights.py", 1),
    "label-sets": ("examples/structures/plot_label_sets.py", 1),
    "leave-one-out": ("examples/batch/plot_leave_one_out.py", 1),
    "links": ("examples/structures/plot_link_prediction.py", 1),
    "multitask-svm": ("examples/batch/plot_multitask_svm.py", 1),
    "networks": ("examples/structures/plot_networks_of_sites.py", 1),
    "no-arguments": ("examples/batch/plot_no_arguments.py", 1),
    "prediction-intervals": ("examples/batch/plot_prediction_intervals.py", 1),
    "quick-economy": ("docs/quickstart.md", 1),
    "quick-stream": ("docs/quickstart.md", 2),
    "random-features": ("examples/fields/plot_operator_random_features.py", 1),
    "recent": ("docs/guide/prediction-intervals.md", 1),
    "regret": ("examples/streams/plot_regret.py", 1),
    "stream": ("docs/guide/streams.md", 1),
    "stream-olok": ("examples/streams/plot_stream.py", 1),
    "vector-field": ("examples/fields/plot_vector_field.py", 1),
}
#: Where the others come from.
ELSEWHERE = {
    "defaults": "python -m benchmarks.defaults_picture",
    "forecast": "ovk forecast --plot",
    "in-service": "a photograph of the page of ovk serve",
    "norma-tube": "OLOK with a tube, nu = 0.2, and its last 500 rows",
    "operator-errors": "python -m reproduce operators",
    "operator-fields": "python -m reproduce operators",
    "speed": "python -m benchmarks.speed_picture",
    "streams-without-settings": "python -m benchmarks.streams_table",
}

#: Inches of pictures that a display draws too wide for a page.
SIZES = {
    "curves": (9.0, 4.4),
    "drift-signs": (9.0, 3.2),
    "quick-economy": (8.0, 9.0),
    "recent": (8.0, 3.4),
    "stream": (9.0, 3.4),
}

#: Pixels of a column of text beside both sidebars, in a window of 1280.
COLUMN = 704
#: Pixels of the smallest words.
SMALLEST = 8.5


def figure(name: str) -> Any:
    """Run what draws a picture, in an empty directory, and return its figure."""
    from matplotlib import pyplot as plt

    path, number = PICTURES[name]
    source = HERE.parent / path
    plt.close("all")
    with empty_directory():
        if source.suffix == ".py":
            runpy.run_path(str(source))
        else:
            space: dict[str, Any] = {"__name__": source.stem}
            for block in blocks(source.read_text(encoding="utf-8")):
                exec(compile(block, str(source), "exec"), space)
                if number in plt.get_fignums():
                    break
    drawn = plt.figure(number)
    drawn.set_size_inches(SIZES.get(name, drawn.get_size_inches()))
    return drawn


def smallest_words(drawn: Any) -> float:
    """Pixels of the smallest words of a figure that is as wide as a column."""
    from matplotlib.text import Text

    drawn.draw_without_rendering()
    sizes = [
        text.get_fontsize()
        for text in drawn.findobj(Text)
        if text.get_visible() and text.get_text().strip() and not re.search(r"\^\{", text.get_text())
    ]
    return float(min(sizes) / 72 * COLUMN / drawn.get_size_inches()[0])


def draw(name: str) -> None:
    """Draw a picture anew, for screens of high resolution, in few enough colours to be small."""
    from PIL import Image

    drawn = figure(name)
    if (size := smallest_words(drawn)) < SMALLEST:
        raise ValueError(f"{name}: the smallest words are {size:.1f} pixels high on a page, fewer than {SMALLEST}")
    path = IMAGES / f"{name}.png"
    drawn.savefig(path, dpi=150)
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    for one in sys.argv[1:] or PICTURES:
        draw(one)
        print(one)
