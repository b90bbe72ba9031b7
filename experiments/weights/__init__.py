"""Scripts for people with weights: what schedules cost a published model, by the protocol of DUEL.

    python -m experiments.weights.mdlm  --model kuleshov-group/mdlm-owt     --text mine.txt --data wikitext=w.jsonl …
    python -m experiments.weights.llada --model GSAI-ML/LLaDA-8B-Base       --text mine.txt --data wikitext=w.jsonl …
    python -m experiments.weights.dream --model Dream-org/Dream-v0-Base-7B  --text mine.txt --data wikitext=w.jsonl …

A model says in a file of its own how it is loaded and made tiny; everything else is common to all.

    command     the options, and one sentence for what is wrong with them
    protocol    the cells of the table: rules, budgets, and measuring what is not yet known of them
    texts       windows or rows of a file as token ids
    record      what was measured, text by text, in a file that outlasts the process; the table of it
    tiny        weights and texts for a try on a CPU
"""

import unmask._torch  # noqa: F401 - before torch itself: its threads then leave a busy machine to others
