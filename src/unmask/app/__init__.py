"""The explorer: a local page on which a schedule can be seen working (`unmask explore`).

What the page shows is computed in modules that know nothing of it, drawn in modules that know nothing of Gradio, and
wired in the last ones:

    data                                          what to show: one module per tab, plain dataclasses
    axis, labels, chart, panels, outcomes,        how it looks: HTML and SVG, with a sentence for every plot
    player, glossary, status
    links, current                                what a view is called, and which one was asked for last
    guard, server                                 who may ask, and the socket on which they do
    fields, events, tabs, page                    the page itself; only these import Gradio

Pictures are small SVGs of our own that follow the page's width and colours; small scripts beside them read values under
the pointer, zoom, and play texts.
"""
