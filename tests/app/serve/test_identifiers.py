"""The identifiers of the last requests, beside a plain list of all of them."""

from ovk.app.serve.request_history import BLOCK, REMEMBERED, RequestIdentifiers


def test_the_last_ones_are_known_and_older_states_stay_as_they_are():
    everything, known, early = [], RequestIdentifiers(), None
    for k in range(REMEMBERED + 3 * BLOCK):
        label_of = f"prediction {k}" if k % 3 else None
        known = known.added(f"request {k}", k + 1, k % 7, f"{k:x}", label_of)
        everything.append((f"request {k}", k + 1, k % 7, f"{k:x}", label_of or ""))
        if k == BLOCK + 3:
            early, then = known, list(everything)
    assert list(early) == then
    kept = list(known)
    assert REMEMBERED <= len(kept) <= REMEMBERED + BLOCK
    assert kept == everything[-len(kept) :]
    assert list(RequestIdentifiers.from_state(known.state())) == kept
