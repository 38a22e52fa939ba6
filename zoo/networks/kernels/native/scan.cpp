// The scans for Python: the table of cells, layers one above the other, and the C interface.
//
// zoo/networks/kernels/interface.py describes the interface, and compiled.py fills in a Job, field by field as in job.h.

#include "continuous.h"
#include "diagonal.h"
#include "gated.h"
#include "layer.h"
#include "linear.h"
#include "lstm_variants.h"
#include "outer.h"
#include "xlstm.h"

struct Stack {  // layers of as many units and states each, one above the other, on (x - mean) / std, and a head
    const Job* jobs;  // what they say of their inputs, states, outputs and sizes in time and batch is not read
    int64_t layers;
    float mean, std;
    const float *weight, *bias;  // of the head: (outputs, units), (outputs); null without a head
    int64_t outputs;
};

namespace {

const CellRow CELLS[] = {
    row<TanhRNN>("tanh-rnn"), row<ReLURNN>("relu-rnn"), row<RIN>("rin"), row<RINDT>("rin-dt"), row<STAR>("star"),
    row<ShiftedSTAR>("shifted-star"), row<LSTM>("lstm"), row<CoupledLSTM>("lstm-coupled"), row<ForgetLSTM>("lstm-f"),
    row<OneGate<false>>("ugrnn"), row<OneGate<true>>("ligru"), row<JANET>("janet"), row<ATR>("atr"), row<MGU>("mgu"),
    row<MGU1>("mgu1"), row<MinimalRNN>("minimalrnn"), row<MinGRU<Tanh>>("lightru"), row<SGRN>("sgrn"), row<MUT1>("mut1"),
    row<MiRU1>("miru1"), row<SGU>("sgu"), row<NBRC>("nbrc"), row<CFN>("cfn"), row<RAN<Tanh>>("ran"),
    row<RAN<Linear>>("identity-ran"), row<OriginalLSTM<false>>("lstm-original"), row<OriginalLSTM<true>>("logistic-lstm-original"),
    row<MultiplicativeLSTM>("lstm-multiplicative"), row<Lipschitz>("lipschitz"), row<LEM>("lem"), row<CfC<true>>("cfc"),
    row<CfC<false>>("no-gate-cfc"),
    row<GRU>("gru"), row<GRUAfter>("gru-after"), row<RHN>("rhn"), row<Antisymmetric>("antisymmetric"),
    row<GatedAntisymmetric>("antisymmetric-gated"), row<MinGRU<Linear>>("mingru"), row<MinGRU<Positive>>("positive-mingru"),
    row<MinLSTM<Linear>>("minlstm"), row<MinLSTM<Positive>>("positive-minlstm"), row<QRNN>("qrnn"),
    row<SRU<Linear>>("sru"), row<SRU<Tanh>>("tanh-sru"), row<RGLRU>("rg-lru"), row<SLSTM<Sigmoid>>("slstm"),
    row<SLSTM<Exponential>>("exp-slstm"),
};

// Whether the work was done: nothing may be thrown at those who call C. The only expected failure is a lack of memory.
template <class Work>
int64_t done(Work work) {
    try {
        work();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

long threads(const Diagonal& d) {
    return std::max(1L, std::min({long(d.threads), long(d.batch), long(double(d.steps) * d.batch * d.width * 8 / LEAST)}));
}

long threads(const Outer& d) {
    return std::max(1L, std::min({long(d.threads), long(d.rows), long(double(d.steps) * d.rows * d.keys * d.values / LEAST)}));
}

// As rnnzoo_run.
void run(const Stack& stack, int64_t steps, int64_t batch, const float* given, const float* old, float* now, float* y, float* logits) {
    const long many = steps * batch, inputs = stack.jobs->inputs, units = stack.jobs->units, size = batch * units;
    std::vector<float> standard(given, given + many * inputs), between(2 * many * units);  // `between` holds what layers put out
    for (float& value : standard) value = (value - stack.mean) / stack.std;
    const float* x = standard.data();
    for (int64_t layer = 0; layer < stack.layers; layer++) {
        Job job = stack.jobs[layer];  // a copy: other threads may be at the same step
        job.steps = steps, job.batch = batch, job.x = x, job.x_row = job.inputs, job.x_step = batch * job.inputs;
        job.y = y && layer + 1 == stack.layers ? y : between.data() + layer % 2 * many * units;
        for (int i = 0; i < job.cell->states; i++, old += size, now += size) job.start[i] = old, job.end[i] = now;
        run_forward(job);
        x = job.y;
    }
    if (!stack.weight) return;
    const long outputs = stack.outputs, pad = padded(outputs);
    Buffer bias(pad), sum(many * pad);
    copy(bias, pad, stack.bias, outputs, 1, outputs);
    if (many < FEW)
        dots(Out(sum, pad, bias, 0), many, x, units, stack.weight, 1, outputs, units);
    else
        multiply(Out(sum, pad, bias, 0), many, x, units, 1, Packed(stack.weight, 1, outputs, units, true, false));
    copy(logits, outputs, sum, pad, many, outputs);
}

}  // namespace

extern "C" {

// What these sources are, so that an older library is not taken for theirs; see interface.py.
const char* rnnzoo_source() { return SOURCE; }

// How many floats a vector has: units are padded to a multiple of it.
int64_t rnnzoo_lanes() { return LANES; }

// How products of bfloat16 are computed; see Means.
int64_t rnnzoo_halves() { return int64_t(Halves::means()); }

// The functions of a cell; null for one that is not here.
const CellRow* rnnzoo_cell(const char* name) {
    for (const CellRow& cell : CELLS)
        if (!strcmp(cell.name, name)) return &cell;
    return nullptr;
}

// Floats of tape that a step of one sequence takes.
int64_t rnnzoo_tape(const CellRow* cell, int64_t phases, int64_t units) {
    return cell->tape * (cell->tape_per_phase ? phases : 1) * padded(units);
}

int64_t rnnzoo_forward(const Job* job) {
    return done([&] { run_forward(*job); });
}

int64_t rnnzoo_backward(const Job* job) {
    return done([&] { run_backward(*job); });
}

int64_t rnnzoo_diagonal_forward(const Diagonal* d) {
    return done([&] {
        share(d->batch, false, threads(*d), [&](long, long first, long rows) {
            d->complex ? diagonal_forward<true>(*d, first, rows) : diagonal_forward<false>(*d, first, rows);
        });
    });
}

int64_t rnnzoo_diagonal_backward(const Diagonal* d) {
    return done([&] {
        share(d->batch, false, threads(*d), [&](long thread, long first, long rows) {
            Buffer g(rows * d->width);
            d->complex ? diagonal_backward<true>(*d, thread, first, rows, g) : diagonal_backward<false>(*d, thread, first, rows, g);
        });
    });
}

int64_t rnnzoo_outer_forward(const Outer* d) {
    return done([&] {
        with_kind(*d, [&](auto delta, auto old) {
            share(d->rows, false, threads(*d), [&](long, long first, long rows) { outer_forward<delta, old>(*d, first, rows); });
        });
    });
}

int64_t rnnzoo_outer_backward(const Outer* d) {
    return done([&] {
        with_kind(*d, [&](auto delta, auto old) {
            share(d->rows, false, threads(*d), [&](long, long first, long rows) { outer_backward<delta, old>(*d, first, rows); });
        });
    });
}

// After how many steps rnnzoo_outer_forward keeps a state.
int64_t rnnzoo_outer_stride() { return STRIDE; }

// Time steps of a stack on x, (steps, batch, inputs). old and now: its states, layer after layer, (batch, units) each. y:
// (steps, batch, units) for what the top layer puts out, or null. logits: (steps, batch, outputs), for a stack with a head.
int64_t rnnzoo_run(const Stack* stack, int64_t steps, int64_t batch, const float* x, const float* old, float* now, float* y, float* logits) {
    return done([&] { run(*stack, steps, batch, x, old, now, y, logits); });
}
}
