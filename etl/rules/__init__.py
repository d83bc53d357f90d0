"""Many rules over the same events, at the cost of a few.

A rule is a condition over predicates. Equal predicates of all rules are evaluated once; those on one field are evaluated
together, on the field's distinct values. The result is, for each predicate, a bit set over the rows of a batch. A rule is
evaluated only in the rows where its witness, a predicate that must hold, holds.

`files` and `reader` read rules, `sigma` those of Sigma; `conditions` has their conditions and `predicates` the operators.
`compiled_rules` adapts rules to a stream, `engine` and `search` run them on batches, `correlation` counts matches over time,
`reload` reads rules again during a run.
"""
