"""Reports: one HTML page about a result or a model, without scripts; and plots of models that files hold."""

from ovk.app.report.forecast import ForecastDisplay
from ovk.app.report.models import model_display
from ovk.app.report.writer import report

__all__ = ["report"]
