"""Rows from arrays, data frames, iterators of chunks and files larger than memory, all as the same chunks (X, Y)."""

from ovk.streams.chunks import Chunk, Chunks, chunks

__all__ = ["Chunk", "Chunks", "chunks"]
