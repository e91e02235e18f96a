"""What a recurrent cell is: names, equations, and the function table they are written in."""
