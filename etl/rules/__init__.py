"""Many rules over the same events, at the cost of a few.

A rule is a condition over predicates. Equal predicates of all rules are one; those on one field are decided together,
on the field's distinct values; what they find are bit sets over the rows of a batch; and a rule is looked at only in rows
where its witness, a predicate that must hold, was found. `engine` puts these together.
"""
