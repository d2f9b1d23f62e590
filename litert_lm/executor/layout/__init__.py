"""What a model is: its states, its steps, and what each input is fed."""
