"""The benchmark's agents in each framework: does Concur gain the same in all of them?"""
