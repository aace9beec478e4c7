"""What `make demo` runs: coupled outputs against outputs apart, on a problem made here.

Six outputs share two hidden functions. Every output is measured at few places, and rarely two at the same place: what
one output does not know, the others do.
"""

from __future__ import annotations

import numpy as np

from ovk import OVKRidgeCV, load, save
from ovk.kernels import Gaussian
from ovk.operators import Dense

OUTPUTS, PLACES, SEEN = 6, 240, 0.06


def problem(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, true outputs (n, d), and what was observed of them (nan elsewhere)."""
    x = np.sort(rng.uniform(0, 10, PLACES))
    hidden = np.column_stack([np.sin(x) + 0.5 * np.sin(2.3 * x), np.cos(1.7 * x)])
    mixing = np.column_stack([np.ones(OUTPUTS), np.linspace(-0.6, 0.6, OUTPUTS)])
    truth = hidden @ mixing.T
    seen = np.where(rng.uniform(size=truth.shape) < SEEN, truth + 0.2 * rng.standard_normal(truth.shape), np.nan)
    return x[:, None], truth, seen


def main() -> None:
    X, truth, seen = problem(np.random.default_rng(0))
    correlation = np.corrcoef(truth.T)
    alphas = np.logspace(-3, 1, 9)
    models = {
        "outputs apart": OVKRidgeCV(Gaussian(0.6), alphas, fit_intercept=True),
        "mixed effect, omega by leave-one-out": OVKRidgeCV(
            Gaussian(0.6), alphas, omegas=[0.0, 0.25, 0.5, 0.75, 0.9, 0.97], fit_intercept=True
        ),
        "the true correlation as operator (oracle)": OVKRidgeCV(
            Gaussian(0.6) * Dense(correlation), alphas, fit_intercept=True
        ),
    }
    count = int(np.isfinite(seen).sum())
    print(f"\n{OUTPUTS} outputs at {PLACES} places, {count} of {seen.size} values observed\n")
    print(f"{'model':42} {'alpha':>7} {'omega':>6} {'R2 at all places':>17}")
    for name, model in models.items():
        model.fit(X, seen)
        omega = "" if model.omega_ is None else f"{model.omega_:g}"
        print(f"{name:42} {model.alpha_:7.3g} {omega:>6} {model.score(X, truth):17.3f}")

    coupled = models["mixed effect, omega by leave-one-out"]
    save(coupled, "demo.ovk")
    again = load("demo.ovk")
    print(f"\nsaved to demo.ovk and loaded: same predictions {np.array_equal(again.predict(X), coupled.predict(X))}")

    mean, std = again.predict(X, return_std=True)
    inside = np.abs(truth - mean) < 2 * std
    print(f"two posterior standard deviations cover {inside.mean():.0%} of the true values")

    try:
        draw(models["outputs apart"], again, X, truth, seen)
        print("demo.png shows three of the outputs, learned apart and together\n")
    except ImportError as missing:
        print(f"no picture: {missing}\n")


def draw(apart: OVKRidgeCV, coupled: OVKRidgeCV, X: np.ndarray, truth: np.ndarray, seen: np.ndarray) -> None:
    """Three of the outputs, learned apart and together."""
    from ovk.plotting import PredictionDisplay
    from ovk.plotting.display import pyplot

    shown = [0, 2, 5]
    figure, axes = pyplot().subplots(3, 2, figsize=(10, 6.4), sharex=True, sharey="row", layout="constrained")
    for column, (title, model) in enumerate({"outputs apart": apart, "outputs coupled": coupled}.items()):
        whole = PredictionDisplay.from_estimator(model, X, seen, plot=False)
        display = PredictionDisplay(
            whole.x,
            whole.mean[:, shown],
            whole.std[:, shown],
            (X[:, 0], seen[:, shown]),
            [f"output {q}" for q in shown],
        )
        display.plot(axes[:, column])
        for panel, q in zip(axes[:, column], shown, strict=True):
            panel.plot(X[:, 0], truth[:, q], color="black", linewidth=0.8, linestyle=":", zorder=1)
        r2 = model.score(X, truth)
        axes[0, column].set_title(f"{title}: R² = {r2:.2f} (dotted: the truth)", pad=24)
    figure.savefig("demo.png", dpi=110)


if __name__ == "__main__":
    main()
