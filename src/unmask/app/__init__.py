"""The explorer: a local page on which a schedule can be seen working (`unmask explore`).

What the page shows is computed in modules that know nothing of it, drawn in modules that know nothing of Gradio, and
wired in the last ones:

    laws, tradeoffs, runs, measured     what to show: one module per tab, plain dataclasses
    chart, panels                       how it looks: HTML and SVG, with a sentence for every plot
    links, fields, tabs, page           the page itself; only these import Gradio

Pictures are small SVGs of our own: one is written in a few milliseconds and follows the page's width and colours, where
matplotlib takes 56 ms and plotly a script of 4.6 MB.
"""
