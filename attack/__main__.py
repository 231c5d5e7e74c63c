"""``python -m attack``: random problems for some time, a table of what held, and replays."""

from __future__ import annotations

import argparse

from attack.families import NAMES, attack_of
from attack.judge import Verdict, judge_case
from attack.runner import Tally, run


def main() -> int:
    """The command line; 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first case (default 0)")
    parser.add_argument("--seconds", type=float, default=60.0, help="in all (default 60)")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--replay", metavar="NAME:SEED", help="one case, in this process")
    parser.add_argument("--skips", action="store_true", help="say why cases were refused")
    options = parser.parse_args()
    if options.replay:
        return _replay(options.replay)
    names = options.only.split(",") if options.only else list(NAMES)
    for name in names:
        attack_of(name)
    tallies = [run(name, options.seed, options.seconds / len(names), _tell) for name in names]
    _show(tallies, options.skips)
    return int(any(tally.broken for tally in tallies))


def _replay(case: str) -> int:
    name, _, seed = case.partition(":")
    verdict = judge_case(attack_of(name), int(seed))
    print(f"{case}: {verdict.seconds:.2f} s", f"refused: {verdict.skipped}" * bool(verdict.skipped))
    for line in verdict.violations:
        print(" ", line)
    return int(bool(verdict.violations))


def _tell(name: str, verdict: Verdict) -> None:
    print(f"python -m attack --replay {name}:{verdict.seed}  # {verdict.violations[0]}", flush=True)


def _show(tallies: list[Tally], skips: bool) -> None:
    print(f"{'family':<12} {'cases':>8} {'skips':>8} {'violations':>10} {'seconds':>8}")
    for tally in tallies:
        print(
            f"{tally.name:<12} {tally.cases:>8} {tally.skips:>8} {len(tally.broken):>10} "
            f"{tally.seconds:>8.1f}"
        )
        if skips:
            for reason, count in tally.reasons.most_common(8):
                print(f"    {count:>6} {reason}")


if __name__ == "__main__":
    raise SystemExit(main())
