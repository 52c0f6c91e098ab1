"""What flow records allow: a page of answers, the figures behind them, and what would mend each.

The records are measured and diagnosed (:mod:`.facts`), and each stage of a diagnosis is judged by
these figures alone (:mod:`.stages`).
"""
