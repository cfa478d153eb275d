// How wide a drawing may be. Before the page is measured (and where the first picture is drawn, in Node) it is `initial`.
export function measure(initial: number) {
  let width = $state(initial);
  return {
    get width() {
      return width;
    },
    /** An attachment: follows the width of the element. */
    follow(element: HTMLElement) {
      const observer = new ResizeObserver(([entry]) => {
        const seen = Math.round(entry.contentRect.width);
        if (seen > 0) width = seen;
      });
      observer.observe(element);
      return () => observer.disconnect();
    },
  };
}

/** A word as it fits: cut with an ellipsis. */
export function fit(word: string, letters: number): string {
  const all = [...word];
  return all.length <= letters ? word : `${all.slice(0, Math.max(letters - 1, 1)).join('')}…`;
}
