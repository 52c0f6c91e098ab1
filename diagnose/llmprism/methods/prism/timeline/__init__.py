"""The timeline: begin and end of the steps of every rank."""
