// Compiled, never run: proves that the facade and the public types agree. The classes of the facade `implement` the
// types where they are written; here it is shown that the entries export the same names with the same types, and that
// the objects have no public member that the types leave out.
import type * as facade from '../../../web/package/src/index.js';
import type * as facadeExternal from '../../../web/package/src/external.js';
import type { Library } from '../../../web/package/src/library.js';
import type * as published from '../../../web/package/types/index.js';
import type * as publishedExternal from '../../../web/package/types/external.js';

/** Whether two types are each other's. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Values<T> = { [Name in keyof T]: T[Name] };
const proof = <T extends true>(): T | undefined => undefined;

proof<Same<keyof typeof facade, keyof typeof published>>();
proof<Same<keyof typeof facadeExternal, keyof typeof publishedExternal>>();
proof<Same<Values<typeof facade>['load'], Values<typeof published>['load']>>();
proof<Same<Values<typeof facadeExternal>['load'], Values<typeof publishedExternal>['load']>>();
proof<Same<ReturnType<typeof facadeExternal.supportsRelaxed>, ReturnType<typeof publishedExternal.supportsRelaxed>>>();
proof<Same<InstanceType<typeof facade.LocantError>, InstanceType<typeof published.LocantError>>>();
proof<Same<ConstructorParameters<typeof facade.LocantError>, ConstructorParameters<typeof published.LocantError>>>();

// Every member of the library is published, and every published member is there.
proof<Same<keyof Library, keyof published.Locant>>();
proof<Library extends published.Locant ? true : false>();

// The members of what each maker returns, by way of the classes behind them.
import type { DetrEncoding, GridEncoding, SinusoidalEncoding, TableEncoding } from '../../../web/package/src/absolute.js';
import type { AttentionLayer } from '../../../web/package/src/attention.js';
import type { CopeForm, Score, Value } from '../../../web/package/src/bias.js';
import type { LayerCache } from '../../../web/package/src/cache.js';
import type { TokenDecoder } from '../../../web/package/src/decoder.js';
import type { Builders } from '../../../web/package/src/positions.js';
import type { PlanRotation, SplitRotation } from '../../../web/package/src/rotary.js';
proof<Same<keyof SinusoidalEncoding, keyof published.Sinusoidal>>();
proof<Same<keyof TableEncoding, keyof published.LearnedTable>>();
proof<Same<keyof PlanRotation, keyof published.Rotation>>();
proof<Same<keyof Score, keyof published.ScoreTerm>>();
proof<Same<keyof Value, keyof published.ValueTerm>>();
proof<Same<keyof AttentionLayer, keyof published.Attention>>();
proof<Same<keyof LayerCache, keyof published.Cache>>();
proof<Same<keyof Builders, keyof published.PositionBuilders>>();
proof<Same<keyof GridEncoding, keyof published.GridSinusoidal>>();
proof<Same<keyof DetrEncoding, keyof published.DetrSinusoidal>>();
proof<Same<keyof SplitRotation, keyof published.DecoupledRotation>>();
proof<Same<keyof CopeForm, keyof published.Cope>>();
proof<Same<keyof TokenDecoder, keyof published.Decoder>>();
