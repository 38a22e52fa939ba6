/* The functions that programs call in a library or a WebAssembly module of one header. HEADER is its name in quotes. */
#include HEADER

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name), used))
static RNN_state first_state;
static float first_x[RNN_INPUTS], first_logits[RNN_OUTPUTS];
EXPORT(inputs) int inputs(void) { return RNN_INPUTS; }
EXPORT(outputs) int outputs(void) { return RNN_OUTPUTS; }
EXPORT(states) int states(void) { return RNN_STATES; }
EXPORT(state) RNN_state *state_address(void) { return &first_state; }
EXPORT(x) float *x_address(void) { return first_x; }
EXPORT(logits) float *logits_address(void) { return first_logits; }
#ifdef RNN_gates
EXPORT(gates) float *gates_address(void) { return RNN_gates; }
#endif
#else
#define EXPORT(name)
#endif

#ifdef TOKENS
typedef int32_t input, argument;
#define READ(x) (*(x))
#else
typedef float input;
typedef const float *argument;
#define READ(x) (x)
#endif

EXPORT(init) void init(RNN_state *state) { RNN_init(state); }

/* Take several steps. dt: the time before each step; null for 1. every: write the logits after each step, or after the last only. */
EXPORT(run) void run(RNN_state *state, const float *dt, const input *x, float *logits, int steps, int every) {
    int t;
    for (t = 0; t < steps; t++, x += RNN_INPUTS) {
        float *out = every || t + 1 == steps ? logits : 0;
#ifdef RNN_step_after
        if (dt) RNN_step_after(state, dt[t], READ(x), out);
        else
#else
        (void)dt;
#endif
        RNN_step(state, READ(x), out);
        if (every) logits += RNN_OUTPUTS;
    }
}

EXPORT(step) void step(RNN_state *state, argument x, float *logits) { RNN_step(state, x, logits); }

#ifdef RNN_step_after
EXPORT(step_after) void step_after(RNN_state *state, float dt, argument x, float *logits) {
    RNN_step_after(state, dt, x, logits);
}
#endif
