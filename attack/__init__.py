"""Random attacks on every certificate, judged by evaluators that share no code with the library.

A *family* draws problems of one kind, hands them to the public functions of the library and judges
the answers.  To add one, write a module with a function ``attack(rng, judge)`` and name it in
``attack.families``: draw from ``rng`` only, call the library by ``judge.call``, say what must hold
by ``judge.that`` and ``judge.at_most``.  ``python -m attack`` runs them.
"""
