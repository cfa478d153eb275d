// Light or dark: as the system says until the reader chooses; the choice is kept where storage may be used.
const key = 'locant-theme';
export type Theme = 'light' | 'dark';

function stored(): Theme | undefined {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : undefined;
  } catch {
    return undefined;  // storage is refused; the choice lasts as long as the page
  }
}

class ThemeState {
  chosen: Theme | undefined = $state();
  system: Theme = $state('light');

  get current(): Theme {
    return this.chosen ?? this.system;
  }

  start(): void {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const follow = () => {
      this.system = query.matches ? 'dark' : 'light';
    };
    follow();
    query.addEventListener('change', follow);
    this.chosen = stored();
    this.#show();
  }

  toggle(): void {
    this.chosen = this.current === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem(key, this.chosen);
    } catch { /* see stored() */ }
    this.#show();
  }

  #show(): void {
    if (this.chosen) document.documentElement.dataset.theme = this.chosen;
    else delete document.documentElement.dataset.theme;
  }
}

export const theme = new ThemeState();
