"""Reports of results and models as self-contained HTML pages, and plots of saved models."""

from ovk.app.report.forecast import ForecastDisplay
from ovk.app.report.models import model_display
from ovk.app.report.writer import report

__all__ = ["report"]
