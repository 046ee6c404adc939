// Decisions from stored moments, for costs that are edited in the page. No DOM here.

const decoded = (text, Kind) => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
};

const CODES = { uint8: Uint8Array, uint16: Uint16Array };

// Where outputs are as cheap as each other the first one is taken, as everywhere in the library.

/** One label for each example: outputs z, costs matrix[z][y], and perhaps one more output, a person, at a price. */
const labelsModel = (data) => {
  const { n, k } = data;
  const q = decoded(data.moments, Float32Array), y = decoded(data.codes, CODES[data.code_type]);
  const w = data.weights ? decoded(data.weights, Float64Array) : null;
  const z = new Uint16Array(n);

  /** z[i] for every example; the person is output matrix.length. Its expected loss is the price times the sum of the law. */
  const decide = ({ matrix, person }, into = z) => {
    const rows = person === null ? matrix : [...matrix, new Array(k).fill(person)];
    const count = rows.length, flat = new Float64Array(count * k);
    rows.forEach((row, a) => flat.set(row, a * k));
    for (let i = 0, at = 0; i < n; i++, at += k) {
      let best = 0, least = Infinity;
      for (let a = 0, cell = 0; a < count; a++) {
        let risk = 0;
        for (let b = 0; b < k; b++, cell++) risk += flat[cell] * q[at + b];
        if (risk < least) { least = risk; best = a; }
      }
      into[i] = best;
    }
    return into;
  };

  const costOf = ({ matrix, person }, a, b) => (a < matrix.length ? matrix[a][b] : person);

  /** Confusion in weight, [output][label]; weights sum to n. */
  const confusion = (decisions, outputs) => {
    const table = Array.from({ length: outputs }, () => new Float64Array(k));
    for (let i = 0; i < n; i++) table[decisions[i]][y[i]] += w ? w[i] : 1;
    return table;
  };

  const evaluate = (state, into) => {
    const decisions = decide(state, into), outputs = state.matrix.length + (state.person === null ? 0 : 1);
    const table = confusion(decisions, outputs);
    let total = 0, passed = 0;
    table.forEach((row, a) => row.forEach((weight, b) => {
      if (weight) total += weight * costOf(state, a, b);
      if (a >= state.matrix.length || data.foreign[a]) passed += weight;
    }));
    return { z: decisions, confusion: table, total, mean: total / n, passed: passed / n };
  };

  /** What decisions cost under other costs; a person who is not to be had any more costs what the dearest mistake costs. */
  const priced = (decisions, state) => {
    const price = state.person ?? Math.max(...state.matrix.flat());
    let total = 0;
    for (let i = 0; i < n; i++) {
      const a = decisions[i];
      total += (w ? w[i] : 1) * (a < state.matrix.length ? state.matrix[a][y[i]] : price);
    }
    return total;
  };

  const differ = (one, other, i) => one[i] !== other[i];
  const name = (decisions, i) => (decisions[i] < data.outputs.length ? data.outputs[decisions[i]] : "a person");
  const law = (i) => Array.from(q.subarray(i * k, (i + 1) * k));
  return { n, evaluate, priced, differ, name, known: (i) => data.labels[y[i]], law, copy: (d) => d.slice(), fresh: () => new Uint16Array(n) };
};

/** A set of labels for each example. Decisions are rows of 0 and 1 and one more column, whether a person decides. */
const setsModel = (data) => {
  const { n, k } = data, width = k + 1;
  const p = decoded(data.moments, Float32Array), y = decoded(data.codes, Uint8Array);
  const w = data.weights ? decoded(data.weights, Float64Array) : null;
  const z = new Uint8Array(n * width);

  /** Each label by its own table costs[j][z][y]. */
  const byTables = ({ tables }, into, risks) => {
    const flat = new Float64Array(tables.flat(2));
    for (let i = 0; i < n; i++) {
      let risk = 0;
      for (let j = 0, c = 0; j < k; j++, c += 4) {
        const there = p[i * k + j], absent = 1 - there;
        const without = flat[c] * absent + flat[c + 1] * there, having = flat[c + 2] * absent + flat[c + 3] * there;
        const take = having < without;
        into[i * width + j] = take ? 1 : 0;
        risk += take ? having : without;
      }
      risks[i] = risk;
    }
  };

  /** The set of largest expected F: for each size r the r labels that are worth most (Ye and others 2012). */
  const byF = ({ beta }, into, risks) => {
    const sizes = data.sizes, columns = sizes + 1, stride = (k + 1) * columns, b2 = beta * beta;
    const reward = new Float64Array((k + 1) * columns);
    for (let r = 1; r <= k; r++) for (let s = 1; s <= sizes; s++) reward[r * columns + s] = (1 + b2) / (b2 * s + r);
    const worth = new Float64Array(k), order = new Int32Array(k), chosen = new Int32Array(k);
    for (let i = 0; i < n; i++) {
      const at = i * stride;
      let best = p[at + k * columns], size = 0;
      for (let r = 1; r <= k; r++) {
        for (let j = 0; j < k; j++) {
          let value = 0;
          for (let s = 1; s <= sizes; s++) value += p[at + j * columns + s] * reward[r * columns + s];
          worth[j] = value;
          let place = j;  // insertion: ties stay in the order of the labels
          while (place > 0 && worth[order[place - 1]] < value) { order[place] = order[place - 1]; place--; }
          order[place] = j;
        }
        let value = 0;
        for (let j = 0; j < r; j++) value += worth[order[j]];
        if (value > best) { best = value; size = r; chosen.set(order); }
      }
      for (let j = 0; j < k; j++) into[i * width + j] = 0;
      for (let j = 0; j < size; j++) into[i * width + chosen[j]] = 1;
      risks[i] = 1 - best;
    }
  };

  const lossOf = (decisions, state, i) => {
    if (decisions[i * width + k]) return state.person ?? data.dearest;
    let total = 0, both = 0, found = 0, known = 0;
    for (let j = 0; j < k; j++) {
      const a = decisions[i * width + j], b = y[i * k + j];
      if (state.tables) total += state.tables[j][a][b];
      both += a & b; found += a; known += b;
    }
    if (state.tables) return total;
    const b2 = state.beta * state.beta, sizes = b2 * known + found;
    return sizes ? 1 - ((1 + b2) * both) / sizes : 0;
  };

  const risks = new Float64Array(n);
  const evaluate = (state, into = z) => {
    (state.tables ? byTables : byF)(state, into, risks);
    const table = Array.from({ length: k }, () => new Float64Array(4));  // absent and not found, missed, false, found
    let total = 0, passed = 0;
    for (let i = 0; i < n; i++) {
      const weight = w ? w[i] : 1, person = state.person !== null && state.person < risks[i];
      into[i * width + k] = person ? 1 : 0;
      total += weight * lossOf(into, state, i);
      if (person) passed += weight;
      else for (let j = 0; j < k; j++) table[j][2 * into[i * width + j] + y[i * k + j]] += weight;
    }
    return { z: into, confusion: table, total, mean: total / n, passed: passed / n };
  };

  const priced = (decisions, state) => {
    let total = 0;
    for (let i = 0; i < n; i++) total += (w ? w[i] : 1) * lossOf(decisions, state, i);
    return total;
  };
  const differ = (one, other, i) => {
    if (one[i * width + k] && other[i * width + k]) return false;
    for (let j = 0; j < width; j++) if (one[i * width + j] !== other[i * width + j]) return true;
    return false;
  };
  const set = (bits) => data.labels.filter((_, j) => bits(j)).join(", ") || "none";
  const name = (decisions, i) => (decisions[i * width + k] ? "a person" : set((j) => decisions[i * width + j]));
  const columns = data.sizes + 1, stride = (k + 1) * columns;
  const inner = (i, j) => p.subarray(i * stride + j * columns + 1, i * stride + (j + 1) * columns).reduce((a, b) => a + b, 0);
  const law = (i) => Array.from({ length: k }, (_, j) => (data.kind === "f" ? inner(i, j) : p[i * k + j]));
  return { n, evaluate, priced, differ, name, known: (i) => set((j) => y[i * k + j]), law, copy: (d) => d.slice(), fresh: () => new Uint8Array(n * width) };
};

const modelOf = (data) => (data.kind === "labels" ? labelsModel(data) : setsModel(data));

/** Settings from a link: of the same shape as those of the page, all numbers finite; null where they are not. */
const settingsOf = (text, start) => {
  try {
    const found = JSON.parse(decodeURIComponent(text));
    const alike = (a, b) => (Array.isArray(b)
      ? Array.isArray(a) && a.length === b.length && b.every((part, i) => alike(a[i], part))
      : typeof a === "number" && Number.isFinite(a));
    for (const key of ["matrix", "tables", "beta"]) if (key in start && !alike(found[key], start[key])) return null;
    if (found.person !== null && !(typeof found.person === "number" && Number.isFinite(found.person))) return null;
    if ("beta" in start && !(found.beta > 0)) return null;
    const settings = { person: found.person };
    for (const key of ["matrix", "tables", "beta"]) if (key in start) settings[key] = found[key];
    return settings;
  } catch {
    return null;
  }
};
