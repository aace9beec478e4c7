"""Sessions of `ovk stream` and models of `ovk fit`, with every kind of column."""

import tempfile
from pathlib import Path

import numpy as np

from ovk.sessions import Settings, fit_table, learn
from ovk.streams import Batch, open_records

TEXT = "day,word,x,y,z\n" + "".join(
    f"2024-01-{1 + i % 28:02d},{'red' if i % 3 else 'blue'},{7 * i % 11},{3 * i % 7},{'?' if i % 5 == 0 else i % 4}\n"
    for i in range(60)
)
NEW = Batch([["2024-02-01", "2024-02-02"], ["red", "green"], ["3", "?"], ["1", "2"], ["", "3"]], [1, 2], [])


def make():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text(TEXT, encoding="utf-8")
        found = {}
        for model in ("olok", "pkawv"):
            settings = Settings(["y", "z"], lags=[1, 2], model=model, kernel="linear", warm_up=20, block=10)
            with open_records(path) as records:
                found[model] = learn(records, settings)
        with open_records(path) as records:
            found["fit"] = fit_table(records, Settings(["y", "z"], features=["word", "x"], kernel="gaussian"))
    return found


def check(loaded):
    for name, model in make().items():
        names = ["day", "word", "x", "y", "z"]
        predictions = [one.predict(NEW) for one in (model, loaded[name]) if one.preparation.bind(names)]
        np.testing.assert_allclose(predictions[1].F, predictions[0].F, rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(predictions[1].widths, predictions[0].widths, rtol=1e-9, err_msg=name)
        if name != "fit":
            np.testing.assert_allclose(loaded[name].result().mse, model.result().mse, rtol=1e-9, err_msg=name)
            further = [one.predict_then_learn(NEW) for one in (model, loaded[name])]
            np.testing.assert_allclose(further[1].F, further[0].F, rtol=1e-9, err_msg=name)
            np.testing.assert_allclose(further[1].widths, further[0].widths, rtol=1e-9, err_msg=name)
            np.testing.assert_allclose(loaded[name].result().mse, model.result().mse, rtol=1e-9, err_msg=name)
