// What build.mjs puts in: the glue that Emscripten made, and the kernels, gzipped, as base64.
declare module 'locant:glue' {
  const glue: (options: {
    instantiateWasm(
      imports: WebAssembly.Imports,
      receive: (instance: WebAssembly.Instance, module: WebAssembly.Module) => void,
    ): object;
  }) => Promise<import('./raw.js').Raw>;
  export default glue;
}
declare module 'locant:kernels' {
  export const deterministic: string;
  /** What makes the relaxed kernel of it. */
  export const difference: string;
}
