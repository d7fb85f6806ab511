"""A ReAct module of DSPy."""

import harness


def run(api, stream):
    import dspy

    dspy.configure(lm=dspy.LM(f"openai/{harness.OPENAI_MODEL}", cache=False, num_retries=0))
    counting = dspy.ReAct("task -> answer", tools=[harness.counter], max_iters=harness.NEVER)
    return counting(task=harness.PROMPT).answer


harness.main(run)
