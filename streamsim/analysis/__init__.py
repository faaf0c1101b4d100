"""What a prediction says: bounds and formulas, races, the causes of lost time and their remedies, intervals.

``predict`` stands at the door. ``bounds`` are the model's own, ``formulas`` those that others have published.
``races`` finds them by the order of ``happens_before`` and the ``touched_bytes``. ``explain`` splits lost time over
``causes``, by simulations (``lab``) of counterfactuals and of the same ops reworked or cut anew, whose ``shares`` and
``even_load`` it works out; ``remedies`` are changes that can be made.
"""
