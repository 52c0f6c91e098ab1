"""A diagnosis from the counters of switch ports, which every operator has.

A counter is the number of bytes that passed a port since it was reset. It is read every few
seconds, and shows no messages, no pairs and no paths. Yet the ports of one training job take part
in the same steps, so their rates rise and fall together: this is all that the diagnosis rests on.

- ``readers``: files and services of many kinds become readings (:mod:`.readings`).
- :mod:`.cleaning`: readings become the bytes that each port moved; wraps, resets and holes are
  recognised, and never counted as traffic.
- :mod:`.curves`: the rates of all ports on one axis of time.
- :mod:`.jobs`: ports whose rates rise and fall together.
- :mod:`.rhythm`, :mod:`.steps`: the length of a step, and its single steps as equal bytes.
- :mod:`.peers`: what each NIC moves in a step, beside the NICs with the same role.
- :mod:`.findings`: what is slow.
"""
