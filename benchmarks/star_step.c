/* One step of a STAR network of 16 layers of 64 units, as one would write it by hand: a loop over transposed weights. */
#include <math.h>

enum { LAYERS = 16, UNITS = 64, OUTPUTS = 10 };

static float gate(float a) { return 1.0f / (1.0f + expf(-a)); }

/* For each layer w has the bias (z and k), W transposed and U transposed, then the head's bias and its weights transposed. */
void run(float h[LAYERS][UNITS], const float *x, float *logits, const float *weights, int steps) {
    for (int t = 0; t < steps; t++) {
        const float *w = weights, *input = x + t;
        for (int layer = 0, width = 1; layer < LAYERS; layer++, width = UNITS) {
            float z[2 * UNITS], *k = z + UNITS;
            for (int i = 0; i < 2 * UNITS; i++) z[i] = w[i];
            w += 2 * UNITS;
            for (int j = 0; j < width; j++, w += 2 * UNITS)
                for (int i = 0; i < 2 * UNITS; i++) z[i] += w[i] * input[j];
            for (int j = 0; j < UNITS; j++, w += UNITS)
                for (int i = 0; i < UNITS; i++) k[i] += w[i] * h[layer][j];
            for (int i = 0; i < UNITS; i++) h[layer][i] = tanhf(h[layer][i] + gate(k[i]) * (tanhf(z[i]) - h[layer][i]));
            input = h[layer];
        }
        for (int i = 0; i < OUTPUTS; i++) logits[t * OUTPUTS + i] = w[i];
        w += OUTPUTS;
        for (int j = 0; j < UNITS; j++, w += OUTPUTS)
            for (int i = 0; i < OUTPUTS; i++) logits[t * OUTPUTS + i] += w[i] * input[j];
    }
}
