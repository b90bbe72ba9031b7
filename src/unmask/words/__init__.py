"""What the command line, the page and the benchmark harness share: from words to objects, and back to sentences.

    schedules    the words for an order and a size become a schedule
    data         what is said of the data becomes a loss curve
    inputs       files that people name: texts, calibrations, schedules
    models       which model, and on which device
    texts        which texts: windows of a text, or rows of data
    answers      rows of prompts, and what is written for each
    unfinished   rows that are finished of a file that is not
    targets      how many steps a target error needs
    training     alphabets, masks, and the processes of a run
    workers      who does the work
    mistakes     what else can be the request's fault
    outputs      files that results go to
    sentences    numbers and advice, as people read them
    pictures     bar charts made of letters

The names themselves are in `unmask.names`. Nothing here knows click or Gradio.
"""
