"""Statements of the papers, written out and compared with the library, by document."""

from audits import many_kernels, online, outputs
from audits.base import STATEMENTS

DOCUMENTS = ("OLOK", "NORMA notes", "AWV slides", "OVK slides", "MovKL")
STATEMENTS.sort(key=lambda one: DOCUMENTS.index(one.seed))

__all__ = ["DOCUMENTS", "STATEMENTS", "many_kernels", "online", "outputs"]
