"""The definition of redistribution, as the paper states it, against which the fast code beside it is tested.

Distributed types over a mesh of named axes (`mesh`), the typing rules and costs of collectives
(`collectives`), and what both mean, element by element (`meaning`).  Tests and benchmarks read these modules;
the planner works with boxes and numbers of parts, and imports none of them (`tests/test_layout.py`).
"""
