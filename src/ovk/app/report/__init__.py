"""Reports of results and models as self-contained HTML pages, and plots of saved models."""

from ovk.app.report.displays import ForecastDisplay, model_display
from ovk.app.report.writer import report

__all__ = ["report"]
