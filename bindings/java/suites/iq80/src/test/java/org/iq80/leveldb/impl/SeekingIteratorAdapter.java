package org.iq80.leveldb.impl;

import java.util.Map;
import org.iq80.leveldb.DBIterator;
import org.terracedb.TerraceIterator;

/** Terrace's iterator under the class name that iq80's tests state. */
public class SeekingIteratorAdapter implements DBIterator {
    private final TerraceIterator iterator;

    SeekingIteratorAdapter(TerraceIterator iterator) {
        this.iterator = iterator;
    }

    @Override
    public void seek(byte[] key) {
        iterator.seek(key);
    }

    @Override
    public void seekToFirst() {
        iterator.seekToFirst();
    }

    @Override
    public void seekToLast() {
        iterator.seekToLast();
    }

    @Override
    public boolean hasNext() {
        return iterator.hasNext();
    }

    @Override
    public Map.Entry<byte[], byte[]> peekNext() {
        return iterator.peekNext();
    }

    @Override
    public Map.Entry<byte[], byte[]> next() {
        return iterator.next();
    }

    @Override
    public boolean hasPrev() {
        return iterator.hasPrev();
    }

    @Override
    public Map.Entry<byte[], byte[]> peekPrev() {
        return iterator.peekPrev();
    }

    @Override
    public Map.Entry<byte[], byte[]> prev() {
        return iterator.prev();
    }

    @Override
    public void remove() {
        iterator.remove();
    }

    @Override
    public void close() {
        iterator.close();
    }
}
