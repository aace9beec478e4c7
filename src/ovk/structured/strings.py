"""Kernels of strings: alike are those with the same short pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from itertools import combinations, product
from typing import Any, Self

from ovk._params import check_int
from ovk.structured.label_kernels import CountedKernel


def pieces(text: Any, k: int) -> Counter[Any]:
    """How often each piece of k letters stands in a text (or in any other sequence of hashable letters)."""
    letters = text if isinstance(text, str) else tuple(text)
    return Counter(letters[i : i + k] for i in range(len(letters) - k + 1))


class KSpectrum(CountedKernel):
    """k(y, z) = sum over pieces a of k letters of (count of a in y) (count of a in z).

    Parameters
    ----------
    k : int >= 1
        Length of the pieces. A text shorter than that has none, and is alike to nothing.
    normalise : bool
        Divide by the norms, so that long texts weigh no more than short ones.

    Examples
    --------
    >>> from ovk.structured import KSpectrum
    >>> KSpectrum(2)(["abab"], ["ab", "ba", "bb"])
    array([[2., 1., 0.]])
    """

    def __init__(self, k: int = 3, normalise: bool = False) -> None:
        self.k = k
        self.normalise = normalise

    def parts(self, one: Any) -> Mapping[Hashable, float]:
        return pieces(one, check_int(self.k, "k"))


class Mismatch(CountedKernel):
    """The k-spectrum kernel that forgives: a piece also counts for every piece that differs in at most m letters.

    k(y, z) = sum over all words a of k letters of c_a(y) c_a(z), c_a(y) the pieces of y within m letters of a.

    Parameters
    ----------
    k : int >= 1
        Length of the pieces.
    m : int >= 0
        Letters that may differ. A piece has about (k (letters - 1))^m neighbours: keep m at 1 or 2.
    alphabet : sequence of letters, optional
        All letters that words are made of; those of the training outputs by default. A letter outside of it can stay
        as it is or be replaced, but replaces no other.
    normalise : bool
        Divide by the norms.

    Examples
    --------
    >>> from ovk.structured import KSpectrum, Mismatch
    >>> Mismatch(3, 1, alphabet="ab")(["aaa"], ["aaa", "aab", "abb", "bbb"])
    array([[4., 2., 2., 0.]])
    """

    def __init__(self, k: int = 3, m: int = 1, alphabet: Any = None, normalise: bool = False) -> None:
        self.k = k
        self.m = m
        self.alphabet = alphabet
        self.normalise = normalise

    def resolve(self, X: Any) -> Self:
        if self.alphabet is not None:
            return self
        return type(self)(self.k, self.m, sorted({letter for text in X for letter in text}), self.normalise)

    def parts(self, one: Any) -> Mapping[Hashable, float]:
        k, m = check_int(self.k, "k"), check_int(self.m, "m", least=0)
        if self.alphabet is None:
            raise ValueError("alphabet is not known yet: give it, or call resolve with the training outputs")
        total: Counter[Hashable] = Counter()
        for piece, number in pieces(one, k).items():
            for word in neighbours(tuple(piece), min(m, k), tuple(self.alphabet)):
                total[word] += number
        return total


def neighbours(piece: tuple[Any, ...], m: int, alphabet: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    """All words that differ from a piece in at most m letters."""
    words = {piece}
    for places in combinations(range(len(piece)), m):
        for letters in product(alphabet, repeat=m):
            word = list(piece)
            for place, letter in zip(places, letters, strict=True):
                word[place] = letter
            words.add(tuple(word))
    return words
