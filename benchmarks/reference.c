/* Tsallis-INF at alpha = 1/2 by hand, where nothing but speed counts.

   y_i = L_i - x, r_i = 1 / y_i, S_k = sum_i r_i^k, c = eta^2 / 4. The weights are r_i^2 / c, and
   x is the root of S_2 = c left of every L_i. Repetitions run in the lanes of vectors: L[i] holds
   arm i of as many as there are lanes. N_k sums over the near arms only, those with a weight of
   at least eta^2, which the reduced-variance estimator gives the baseline 1/2.

   A round takes the sums at a prediction of the root, made from the sums of the round before, and
   counts on the way how many cumulative weights lie below the draw. Almost always one pass over
   the arms is enough. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

/* Wider vectors than the machine's compile as well, into much slower code. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define BYTES 64
#elif defined(__AVX2__)
#define BYTES 32
#else
#define BYTES 16
#endif
#define LANES (BYTES / 8)

#define BLOCK 4        /* arms that share one division */
#define SURE 3e-5      /* residual from which a step of third order leaves less than EXACT */
#define EXACT 1e-12
#define PADDING 1e60   /* estimate of the arms that fill the last block: they weigh nothing */
#define MAX_PASSES 100 /* never reached: a bound on the loop, not a tolerance */

typedef double V __attribute__((vector_size(BYTES)));
typedef int64_t I __attribute__((vector_size(BYTES)));
typedef uint64_t U __attribute__((vector_size(BYTES)));

#if BYTES == 64
#include <immintrin.h>
/* Compilers do not find the masked instructions by themselves. */
typedef __mmask8 Mask;
INLINE Mask less(V a, V b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
INLINE Mask equal(I a, I b) { return _mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b); }
INLINE int all(Mask m) { return m == 255; }
INLINE V pick(Mask m, V a, V b) { return _mm512_mask_blend_pd(m, b, a); }
INLINE V add_if(Mask m, V a, V b) { return _mm512_mask_add_pd(a, m, a, b); }
INLINE V add_product_if(Mask m, V a, V b, V c) { return _mm512_mask3_fmadd_pd(b, c, a, m); }
INLINE I count_if(Mask m, I n)
{
    return (I)_mm512_mask_add_epi64((__m512i)n, m, (__m512i)n, _mm512_set1_epi64(1));
}
INLINE V root(V a) { return _mm512_sqrt_pd(a); }
/* Exact to 1e-8, enough for a prediction, and sooner there than a quotient. */
INLINE V about_inverse(V y)
{
    V r = _mm512_rcp14_pd(y);
    return r + r * (1.0 - y * r);
}
#else
typedef I Mask;
INLINE Mask less(V a, V b) { return a < b; }
INLINE Mask equal(I a, I b) { return a == b; }
INLINE int all(Mask m)
{
    int64_t every = -1;
    for (int j = 0; j < LANES; j++) every &= m[j];
    return every != 0;
}
INLINE V pick(Mask m, V a, V b) { return (V)((m & (I)a) | (~m & (I)b)); }
INLINE V add_if(Mask m, V a, V b) { return a + (V)(m & (I)b); }
INLINE V add_product_if(Mask m, V a, V b, V c) { return add_if(m, a, b * c); }
INLINE I count_if(Mask m, I n) { return n - m; }
INLINE V root(V a)
{
    for (int j = 0; j < LANES; j++) a[j] = sqrt(a[j]);
    return a;
}
INLINE V about_inverse(V y) { return 1.0 / y; }
#endif

INLINE V splat(double a) { return a - (V){0}; }
INLINE V absolute(V a) { return (V)((I)a & INT64_MAX); }
INLINE V lesser(V a, V b) { return pick(less(a, b), a, b); }
INLINE V greater(V a, V b) { return pick(less(a, b), b, a); }

typedef struct {
    V x, regret;
    U s[4];
} Group;

/* xoshiro256+, whose upper bits are all that a double needs. */
INLINE V uniform(U *s)
{
    U sum = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return (V)((sum >> 12) | 0x3ff0000000000000) - 1.0;
}

INLINE V least(int K, const V *L)
{
    V low = L[0];
    for (int i = 1; i < K; i++) low = lesser(low, L[i]);
    return low;
}

/* The step to the root, to third order. Solved is S_2^(-1/2) = c^(-1/2), which is nearly linear:
   a played arm moves the root too far for a series in S_2 itself. */
INLINE V predicted(V S2, V S3, V S4, double over_c)
{
    V q = about_inverse(S2 * S3), over_S3 = S2 * q;
    V e = lesser(S2 * over_c - 1.0, splat(1.0));
    V d = -e * (0.5 + e * (-0.125 + e * (0.0625 - 0.0390625 * e))) * S2 * over_S3;
    V more = 1.5 * (S3 * S3 * q - S4 * over_S3) * d;
    return d + d * pick(less(absolute(more), splat(0.25)), more, splat(0.0));
}

/* One division for a block: with one for every arm the divider would set the pace. */
INLINE void invert(int block, const V *y, V *r)
{
    V first = y[0] * y[1];
    if (block == 2) {
        V q = 1.0 / first;
        r[0] = q * y[1];
        r[1] = q * y[0];
    } else {
        V second = y[2] * y[3], q = 1.0 / (first * second), p = q * second;
        q *= first;
        r[0] = p * y[1];
        r[1] = p * y[0];
        r[2] = q * y[3];
        r[3] = q * y[2];
    }
}

/* What a lane's own arm needs is done to every arm under a mask, or to that one, lane by lane.
   With MANY arms a pass only sees which block the draw falls into. */
enum { FEW, SOME, MANY };

/* The drawn arm and its y, after a pass that found its block. */
INLINE I within_block(int K, const V *L, V x, V target, I block, V *below, V *drawn)
{
    const int64_t last = (K - 1) / BLOCK;
    V y[BLOCK], r[BLOCK], sum = *below;
    for (int j = 0; j < LANES; j++)
        if (block[j] > last) block[j] = last;
    for (int i = 0; i < BLOCK; i++) {
        V own = x;
        for (int j = 0; j < LANES; j++) own[j] = L[block[j] * BLOCK + i][j];
        y[i] = own - x;
    }
    invert(BLOCK, y, r);
    I arm = block * BLOCK;
    *drawn = y[0];
    for (int i = 1; i < BLOCK; i++) {
        sum += r[i - 1] * r[i - 1];
        Mask passed = less(sum, target) & less(y[i], splat(PADDING / 2));
        *below = pick(passed, sum, *below);
        *drawn = pick(passed, y[i], *drawn);
        arm = count_if(passed, arm);
    }
    return arm;
}

INLINE long play_round(int K, int size, int rv, V *L, Group *g, double c, double over_next,
                       double gap)
{
    const double over_c = 1.0 / c, limit = sqrt(over_c), near_below = 0.5 * over_c;
    const int block = size == FEW && K == 2 ? 2 : BLOCK;
    const V zero = splat(0.0), one = splat(1.0), half = splat(0.5);
    V x = g->x, target = uniform(g->s) * c;
    V S2, S3, S4, N3, N4, below, drawn, d, over_S3;
    I arm;
    long passes = 0;
    for (;;) {
        S2 = S3 = S4 = N3 = N4 = below = drawn = zero;
        arm = (I)zero;
        Mask passed = less(zero, one);
        for (int start = 0; start < K; start += block) {
            V y[BLOCK], r[BLOCK];
            for (int i = 0; i < block; i++) y[i] = L[start + i] - x;
            invert(block, y, r);
            for (int i = 0; i < block; i++) {
                V r2 = r[i] * r[i];
                S2 += r2;
                S3 += r2 * r[i];
                S4 += r2 * r2;
                if (rv) {
                    Mask near = less(y[i], splat(near_below));
                    N3 = add_product_if(near, N3, r2, r[i]);
                    N4 = add_product_if(near, N4, r2, r2);
                }
                if (size == MANY && i < block - 1) continue;
                if (size == FEW) drawn = pick(passed, y[i], drawn);
                if (size == FEW && start + i == K - 1) break;
                passed = less(S2, target);
                below = pick(passed, S2, below);
                arm = count_if(passed, arm);
            }
        }
        passes++;
        if (size == MANY) arm = within_block(K, L, x, target, arm, &below, &drawn);
        if (size == SOME)
            for (int j = 0; j < LANES; j++) {
                if (arm[j] >= K) arm[j] = K - 1;
                drawn[j] = L[arm[j]][j] - x[j];
            }
        V missing = c - S2, off = absolute(missing), ahead = target - below;
        over_S3 = 1.0 / S3;
        d = 0.5 * missing * over_S3;
        d -= 1.5 * S4 * over_S3 * d * d;
        /* No cumulative sum moves by more than `reach` on the way to the root. */
        V reach = 1.1 * off;
        Mask near_root = less(off, splat(SURE * c));
        Mask sure = near_root & less(reach, ahead) & less((ahead + reach) * drawn * drawn, one);
        sure |= less(off, splat(EXACT * c));
        if (__builtin_expect(all(sure), 1) || passes == MAX_PASSES) break;
        x += pick(near_root, d, (1.0 - root(S2 * over_c)) * S2 / S3);
        x = lesser(x, least(K, L) - limit);
    }
    V y = drawn - d, over_p = y * y * c;
    Mask best = equal(arm, (I)zero);
    Mask lost = less(uniform(g->s), pick(best, splat(0.5 - gap / 2), splat(0.5 + gap / 2)));
    g->regret += pick(best, zero, splat(gap));
    V by = pick(lost, over_p, zero);
    if (rv) {
        V edge = x + d + near_below, baseline = pick(less(y, splat(near_below)), half, zero);
        for (int i = 0; i < K; i++) L[i] = add_if(less(L[i], edge), L[i], half);
        by -= baseline * over_p;
        /* The sums are those at x + s, which follows the near arms, to second order. */
        V s = 0.5 * N3 * over_S3, rest = 0.5 - s;
        x += s;
        drawn += baseline - s;
        S2 += 3.0 * (rest * rest * N4 + s * s * (S4 - N4));
        S3 = greater(S3 + 3.0 * (s * S4 - 0.5 * N4), 0.25 * S3);
    }
    if (size == FEW)
        for (int i = 0; i < K; i++) L[i] = add_if(equal(arm, i - (I){0}), L[i], by);
    else
        for (int j = 0; j < LANES; j++) L[arm[j]][j] += by[j];
    V moved = drawn + by, q = about_inverse(drawn * moved), r0 = moved * q, r1 = drawn * q;
    V p0 = r0 * r0, p1 = r1 * r1;
    S2 = greater(S2 - p0, zero) + p1;
    S3 = greater(S3 - p0 * r0, zero) + p1 * r1;
    S4 += p1 * p1 - p0 * p0;
    V step = predicted(S2, S3, S4, over_next);
    g->x = x + step;
    /* At the root no y_i was below `limit`. So x can be near a pole, beyond which S_2 = c has
       another root, only after a long step or if the played arm came down. */
    Mask safe = less(step, splat(0.45 * limit)) & less(splat(0.5 * limit), moved - step);
    if (__builtin_expect(!all(safe), 0)) g->x = lesser(g->x, least(K, L) - sqrt(over_next));
    return passes;
}

/* Several groups take turns within a round: the next one's arithmetic fills the time in which
   this one's waits for its own results. */
INLINE long play_rounds(int K, int size, int rv, int groups, long T, double gap, double rate, V *L,
                        Group *G)
{
    const int rows = (K + BLOCK - 1) / BLOCK * BLOCK;
    const double scale = rate * rate / 4.0;
    long passes = 0;
    for (long t = 1; t <= T; t++)
        for (int g = 0; g < groups; g++)
            passes += play_round(K, size, rv, L + (size_t)rows * g, G + g, scale / t,
                                 (t + 1) / scale, gap);
    return passes;
}

/* Play T rounds `runs` times with eta = rate / sqrt(t) against Bernoulli losses of mean
   (1 - gap) / 2 for arm 0 and (1 + gap) / 2 for the others. Return the passes over the arms of
   one run and round, on average, or -1 without memory. */
double play(int K, int rv, int runs, long T, double gap, double rate, uint64_t seed,
            double *regret)
{
    const int rows = (K + BLOCK - 1) / BLOCK * BLOCK, groups = (runs + LANES - 1) / LANES;
    V *L = aligned_alloc(BYTES, sizeof(V) * rows * groups);
    Group *G = aligned_alloc(BYTES, sizeof(Group) * groups);
    if (!L || !G) return -1.0;
    for (int n = 0; n < rows * groups; n++) L[n] = splat(n % rows < K ? 0.0 : PADDING);
    for (int g = 0; g < groups; g++) {
        G[g].x = splat(-2.0 * sqrt(K) / rate);
        G[g].regret = splat(0.0);
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < LANES; j++) { /* splitmix64 */
                uint64_t z = seed += 0x9e3779b97f4a7c15;
                z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
                z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
                G[g].s[k][j] = z ^ (z >> 31);
            }
    }
    long passes;
#define ROUNDS(K, size) \
    (rv ? play_rounds(K, size, 1, groups, T, gap, rate, L, G) \
        : play_rounds(K, size, 0, groups, T, gap, rate, L, G))
    switch (K) {
    case 2: passes = ROUNDS(2, FEW); break;
    case 4: passes = ROUNDS(4, FEW); break;
    case 8: passes = ROUNDS(8, FEW); break;
    default: passes = K < 64 ? ROUNDS(K, SOME) : ROUNDS(K, MANY);
    }
    for (int n = 0; n < runs; n++) regret[n] = G[n / LANES].regret[n % LANES];
    free(L);
    free(G);
    return (double)passes / groups / T;
}
