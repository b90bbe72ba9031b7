"""How long the page takes to answer a slider, in a real browser: alone, and with ten tabs at once.

    python benchmarks/page.py [--output page.json]

A slider is moved by script; the time is from its event to the frame in which the new text of the plot is there. It
covers the browser, the request, the computation and the drawing. Every position is new: nothing comes from memory.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from pathlib import Path

LENGTH, STEPS = 4096, 512
CHROMIUM = "/usr/bin/chromium"

# Moves the slider of a label to a value, and tells how many milliseconds the page took to say so.
MOVE = """
async ([label, value, words]) => {
  // Gradio's own slider, behind the logarithmic one that a person moves.
  const box = [...document.querySelectorAll("input[type=range]:not([data-logarithmic])")].find((each) => {
    const block = each.closest(".block");
    return block?.offsetParent && block.textContent.includes(label);
  });
  const said = () => document.querySelector("#mean-sizes-words").textContent.includes(words);
  const begin = performance.now();
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, value);
  box.dispatchEvent(new Event("input", { bubbles: true }));
  box.dispatchEvent(new Event("change", { bubbles: true }));
  // Looked at once per frame: what is not painted is not an answer.
  while (!said()) {
    if (performance.now() - begin > 20000) throw new Error("no answer in 20 seconds");
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - begin;
}
"""


async def opened(browser, address):
    page = await browser.new_page()
    await page.goto(f"{address}?tab=schedules&length={LENGTH}&steps={STEPS}")
    await page.wait_for_function(
        f"() => document.querySelector('#mean-sizes-words')?.textContent.includes('of {STEPS} steps')"
    )
    return page


async def moved(page, values):
    return [await page.evaluate(MOVE, ["Steps", str(value), f"of {value} steps"]) for value in values]


async def measured(address, moves=20, tabs=10):
    """Milliseconds of every move: of a page that has just opened, of one that has settled, and of several that are
    moved without a pause at the same time."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await opened(browser, address)
        first = await moved(page, range(STEPS - 3, STEPS))  # its other tabs are being computed meanwhile
        await page.wait_for_timeout(2000)
        alone = await moved(page, range(STEPS - 4, STEPS - 4 - 2 * moves, -1))
        pages = [page, *[await opened(browser, address) for _ in range(tabs - 1)]]
        # Every tab visits places of its own.
        ways = [range(STEPS + 1 + place * moves, STEPS + 1 + (place + 1) * moves) for place in range(tabs)]
        together = await asyncio.gather(*(moved(each, way) for each, way in zip(pages, ways, strict=True)))
        await browser.close()
    return first, alone, [time for each in together for time in each]


def summary(times):
    return {
        "moves": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(sorted(times)[int(0.95 * len(times))], 1),
        "most_ms": round(max(times), 1),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--output", type=Path, help="Write the numbers to this file as well.")
    chosen = options.parse_args()
    try:
        import gradio  # noqa: F401
        import playwright  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"The benchmark of the page is left out: {error.name} is not installed.")
    if not Path(CHROMIUM).exists():
        print(f"The benchmark of the page is left out: there is no {CHROMIUM}.")
        return
    from unmask import models
    from unmask.app import page

    model = models.load("builtin")
    built = page.build(model, models.calibration_of(model), "the built-in model's")
    address = page.serve(built, host="127.0.0.1", port=None, browser=False, wait=False)
    first, alone, together = asyncio.run(measured(address))
    built.close(verbose=False)
    record = {
        "length": LENGTH,
        "steps": STEPS,
        "cores": os.cpu_count(),
        "first": summary(first),
        "alone": summary(alone),
        "ten": summary(together),
    }
    print(f"{'':12} moves  median  95 %  most (ms)")
    for name in ("first", "alone", "ten"):
        row = record[name]
        print(f"{name:12} {row['moves']:5d}  {row['median_ms']:6.1f} {row['p95_ms']:5.1f} {row['most_ms']:5.1f}")
    if chosen.output is not None:
        chosen.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
