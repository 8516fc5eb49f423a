// The kernel of metal.py: one threadgroup a row, one simdgroup a word of the mask, one lane a token.
//
// Above the line "// body" stands what MLX puts before the function, below it the function's body. MLX writes the
// signature: T is the type of the logits, MASKED and NORMALISED are constants, `logits`, `mask`, `settings` (two
// words a row: the bits of its temperature, the hash its noise starts from), `vocab`, `ids` and `logprobs` are what
// metal.py passes. `reference.py` says what must come out. The tests compile this file as C++, so it keeps to what
// both languages share, and no function takes a pointer: where MLX puts a small array is not known here.

constant constexpr uint GOLDEN = 0x9E3779B1u;
constant constexpr uint NO_TOKEN = 0xFFFFFFFFu;
constant constexpr float NEVER = -INFINITY;
// Noise is below this, so a token further behind the best one cannot win and needs none.
constant constexpr float MOST_NOISE = 17.0f;

struct Best {
    float score;
    uint token;
};

// The sum of exponentials, as exp(top) * sum.
struct Mass {
    float top;
    float sum;
};

// NaN counts as impossible, +inf as the largest number.
inline float cleaned(float x) {
    return isnan(x) ? NEVER : (x < FLT_MAX ? x : FLT_MAX);
}

inline uint finalised(uint h) {
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
}

inline float gumbel(uint start, uint token) {
    uint bits = finalised(start ^ (token * GOLDEN));
    float uniform = (float(bits >> 9) + 0.5f) * 1.1920928955078125e-7f;
    return -precise::log(-precise::log(uniform));
}

inline Mass grown(Mass mass, float x) {
    if (x == NEVER) {
        return mass;
    }
    if (x <= mass.top) {
        return Mass{mass.top, mass.sum + precise::exp(x - mass.top)};
    }
    return Mass{x, mass.sum * precise::exp(mass.top - x) + 1.0f};
}

inline Best best_of_simdgroup(Best mine) {
    float score = simd_max(mine.score);
    return Best{score, simd_min(mine.score == score ? mine.token : NO_TOKEN)};
}

inline Mass mass_of_simdgroup(Mass mine) {
    float top = simd_max(mine.top);
    // Equal tops first: -inf from -inf is no number.
    return Mass{top, simd_sum(mine.top == top ? mine.sum : mine.sum * precise::exp(mine.top - top))};
}

// body
uint row = threadgroup_position_in_grid.y;
uint lane = thread_index_in_simdgroup;
uint simd_index = simdgroup_index_in_threadgroup;
uint simd_count = simdgroups_per_threadgroup;
uint width = uint(logits_shape[1]);
uint words = (width + 31) / 32;
ulong first_logit = ulong(row) * width;
ulong first_word = ulong(row) * words;
float temperature = as_type<float>(settings[2 * row]);
uint start = settings[2 * row + 1];

Best best = Best{NEVER, NO_TOKEN};
Mass mass = Mass{NEVER, 0.0f};
for (uint word = simd_index; word < words; word += simd_count) {
    uint bits = MASKED ? uint(mask[first_word + word]) : 0xFFFFFFFFu;
    uint token = 32 * word + lane;
    if ((NORMALISED && bits == 0) || token >= uint(vocab)) {
        continue;
    }
    float raw = cleaned(float(logits[first_logit + token]));
    if (!NORMALISED) {
        mass = grown(mass, raw);
    }
    if (((bits >> lane) & 1u) == 0 || raw == NEVER) {
        continue;
    }
    float score = raw;
    if (temperature > 0.0f) {
        score = raw / temperature;
        if (score + MOST_NOISE < best.score) {
            continue;
        }
        score += gumbel(start, token);
    }
    // Tokens ascend, so the first of equals stays.
    if (score > best.score) {
        best = Best{score, token};
    }
}

threadgroup float best_scores[32];
threadgroup uint best_tokens[32];
threadgroup float tops[32];
threadgroup float sums[32];
best = best_of_simdgroup(best);
mass = mass_of_simdgroup(mass);
if (lane == 0) {
    best_scores[simd_index] = best.score;
    best_tokens[simd_index] = best.token;
    tops[simd_index] = mass.top;
    sums[simd_index] = mass.sum;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (simd_index == 0) {
    bool used = lane < simd_count;
    best = best_of_simdgroup(used ? Best{best_scores[lane], best_tokens[lane]} : Best{NEVER, NO_TOKEN});
    mass = mass_of_simdgroup(used ? Mass{tops[lane], sums[lane]} : Mass{NEVER, 0.0f});
    if (lane == 0) {
        bool found = best.token != NO_TOKEN;
        float chosen = found ? cleaned(float(logits[first_logit + best.token])) : NEVER;
        ids[row] = found ? int(best.token) : -1;
        logprobs[row] = NORMALISED || !found ? chosen : chosen - (mass.top + precise::log(mass.sum));
    }
}
