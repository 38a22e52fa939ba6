/* $name: one time step of a recurrent network, in C99.

   RNN_state state;  // $bytes bytes, one for each sequence
   RNN_init(&state);
   RNN_step(&state, $given, logits);

   RNN_init sets the state to zero. RNN_step reads $size and writes $outputs $kind $meaning,
   unless logits is NULL. Compile with -O3 and the processor's vector instructions, such as -march=native. It allocates
   nothing, needs no library but libm, and keeps up to RNN_STACK bytes of numbers on the stack.
$about_gaps
$provenance */
#ifndef RNN_H
#define RNN_H
$operations
enum { RNN_INPUTS = $features, RNN_OUTPUTS = $outputs, RNN_STATES = $states, RNN_STACK = $stack };

typedef struct RNN_state {
    float values[RNN_STATES];
} RNN_state;

$arrays
$functions
static inline void RNN_init(RNN_state *state) {
    int i;
    for (i = 0; i < RNN_STATES; i++) state->values[i] = 0.0f;
}

static inline void RNN_step${after}(RNN_state *state, ${gap}$argument, float *logits) {
    float *const s = state->values;
    const float *h;
    int i;
$body
}
$plain_step#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
