"""What a prediction says: bounds, formulas, intervals, the causes of lost time, their remedies, what changes bring.

``predict`` stands at the door. ``bounds`` are the model's own, ``formulas`` those that others have published.
``explain`` splits lost time over ``causes``, by simulations without them (``removals``) of programs changed
(:mod:`streamsim.transform`) or counterfactual, and works out their ``shapley`` values and the ``engine_loads``;
``remedies`` are changes that can be made, and ``what_if`` says what any of them brings.
"""
