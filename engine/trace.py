"""A run as a file and as a stream: one header line, one line per round, one end line. JSON lines, schema 1.

`describe(step, ...)` turns one engine Step into the JSON-able dict below, outside the timed region. Live page, recorded
page, notebook and file all read exactly this, so nobody can tell live from replay. Every chart is a fold over it.

Conventions
- ids are token ids; `texts` maps every id that a round mentions (as a JSON string key) to its piece: a string when the
  token is whole UTF-8, else a list of byte values (a part of a character, e.g. [240, 159]).
- times are milliseconds on the run's own clock, which runs only inside the engine: `t0` of a round is the sum of the
  rounds before it. t_draft + t_target + t_verify + t_other is the round's wall time.
- `*_top` are [[id, probability], ...] in falling order, `*_rest` is the mass of everything else; together they sum to 1.
- p is the target's, q the drafter's distribution after temperature, top-k, top-p and min-p: what decides.
  `p_own_*` and `q_own_*` are the models' own softmax at temperature 1: what they think. A point mass has q_tok 1.

header  {"type": "run", "schema": 1, "id", "method", "knobs": {"k": 4, ...}, "rule", "lossless",
         "models": {"target": {"name", "weights", "hash", "parameters", "dtype", "device"}, "draft": {same} | null},
         "tokenizer_hash", "sampling": {"temperature", "top_k", "top_p", "min_p", "max_new", "seed", "stop": [ids],
         "stop_strings": [...]}, "seed", "machine", "badge": "measured" | "recorded" | "toy", "started": ISO 8601,
         "prompt": {"text", "raw", "ids": [...]}}
round   {"type": "round", "i", "prefix_len", "t0", "t_draft", "t_target", "t_verify", "t_other",
         "rows": rows that the target computed,
         "draft":  [{"slot", "parent": slot | null, "pass", "token_id", "depth": 1.., "q_tok", "q_top", "q_rest",
                     "q_own_tok", "q_own_top", "q_own_rest", "q_rank", "source": [from, to] | absent, "confidence" | absent}],
         "verify": [{"slot", "p_tok", "p_top", "p_rest", "p_own_tok", "p_own_top", "p_own_rest", "p_rank", "p_entropy",
                     "p_gap": logit gap of the target's two best, "ratio": chance of acceptance, "u": number | null,
                     "verdict": "kept" | "rejected" | "not_reached"}],
         "emit":   [{"token_id", "maker": "draft" | "correction" | "bonus" | "plain", "slot": slot | null}],
         "final":  {"token_id", "u", "p_top", "p_rest", "p_own_top", "p_own_rest", "p_entropy", "p_gap",
                     "residual_top" | absent, "residual_rest" | absent} | null (an accepted stop token ended the round),
         "texts":  {"17": " the", "240": [240, 159]},
         "counts": {"rounds", "passes", "tokens", "drafted", "tested", "accepted", "offered": [...], "reached": [...],
                    "kept": [...]}: running totals after this round; lists by position (index 0 = first drafted token),
         "done": null | "stop" | "stop_string" | "length",
         "note": null | why nothing was drafted: "no_match" | "draft_context" | "last_token"}
end     {"type": "end", "done", "hash": of everything but times, "seconds": {"draft", "target", "verify", "other"},
         "plain": {"tokens", "seconds", "tokens_per_second"} | null: plain decoding of the same prompt, same machine}
"""
